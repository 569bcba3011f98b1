-- Versions that move over edges in waves, and how far they are. What a state means is decided by one function; the database
-- keeps it as it was decided, and counts.
create table rollouts (
    id text not null primary key,
    plugin text not null,
    version text not null,
    -- JSON, as the API has it.
    plan text not null,
    -- JSON.
    state text not null,
    -- JSON: what each edge that began had installed before, null for nothing.
    earlier text not null,
    phase text not null check (phase in ('pending', 'progressing', 'paused', 'rolling_back', 'completed', 'rolled_back')),
    -- Why it stands so.
    reason text not null,
    -- Another one at each move.
    revision bigint not null,
    started_at bigint not null,
    started_by text not null,
    moved_at bigint not null,
    ended_at bigint,
    foreign key (plugin, version) references plugin_versions (plugin, version)
);
create index rollouts_by_plugin on rollouts (plugin, version);
create index rollouts_under_way on rollouts (id) where ended_at is null;

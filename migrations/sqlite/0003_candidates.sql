-- Versions that some nodes of an edge try beside the installed one, the grants by which they do,
-- and what a database that was restored from a copy lost but nodes still hold. A grant counts only
-- while its source runs; its row stays until the node's grants are changed for another reason, so
-- that one generation of them never has two contents.

create table candidates (
    source text not null primary key,
    edge text not null references edges (name),
    plugin text not null,
    version text not null,
    set_at integer not null,
    set_by text not null,
    ended_at integer,
    foreign key (plugin, version) references plugin_versions (plugin, version)
) strict;
create unique index candidates_running on candidates (edge, plugin) where ended_at is null;
create index candidates_by_version on candidates (plugin, version);

create table grants (
    node text not null references nodes (id),
    plugin text not null,
    source text not null,
    version text not null,
    usage text not null check (usage in ('serve', 'gate')),
    granted_at integer not null,
    granted_by text not null,
    primary key (node, plugin),
    foreign key (plugin, version) references plugin_versions (plugin, version)
) strict;
create index grants_by_source on grants (source);

-- Where each head stood when it was found that the database had been restored: what nodes hold
-- beyond it was never said by this database.
create table rewound_heads (
    epoch integer not null check (epoch >= 2),
    scope text not null,
    part text not null,
    base_epoch integer not null,
    base_generation integer not null,
    primary key (epoch, scope, part)
) strict;

-- Which heads of trust were read from a node that held more than the database.
create table salvaged (
    edge text not null,
    digest blob not null check (length(digest) = 32),
    node text not null,
    at integer not null,
    primary key (edge, digest)
) strict;

-- What such a node held as approved and the database does not: people adopt it again or drop it.
create table orphans (
    edge text not null,
    plugin text not null,
    version text not null,
    tool text not null,
    -- '' for an origin.
    function text not null,
    -- A listing hash, or an origin.
    held text not null,
    node text not null,
    found_at integer not null,
    state text not null check (state in ('open', 'adopted', 'dropped')),
    primary key (edge, plugin, version, tool, function, held)
) strict;
create index orphans_by_state on orphans (state);

-- Archives of pushed versions in pieces, where several servers share the database and each has a
-- folder of its own; empty on SQLite, which has one server.
create table archive_pieces (
    archive blob not null check (length(archive) = 32),
    ordinal integer not null check (ordinal >= 0),
    bytes blob not null,
    primary key (archive, ordinal)
) strict;

-- What no node shows any longer is looked for by these.
create index sightings_by_list on sightings (list);
create index list_functions_by_hash on list_functions (hash);
create index snapshots_by_hash on snapshots (hash);
create index changes_by_seen on changes (seen);

-- The first tables: a fleet, its edges and nodes, what is pushed and assigned, what nodes listed,
-- what the fleet goes by, and the audit log. Keys of snapshots and pins have their final form from
-- here on, so that scopes other than the fleet's need no rewrite. Times are milliseconds since the
-- Unix epoch; listing hashes are text (v1:sha256:HEX), other digests 32 bytes; '' in a key stands
-- for "the fleet" (scope) and "all connections" (connection). Hashed documents are text, as they
-- were hashed.

create table meta (
    key text not null primary key,
    value text not null
);

create table edges (
    name text not null primary key,
    created_at bigint not null,
    created_by text not null
);

-- One row for each part of an edge's or a node's plugin set; raised in the transaction of the change.
create table heads (
    scope text not null,
    part text not null check (part in ('trust', 'plan', 'policy', 'grants')),
    epoch bigint not null check (epoch >= 1),
    generation bigint not null check (generation >= 1),
    primary key (scope, part)
);

create table join_tokens (
    id text not null primary key,
    secret_sha256 bytea not null check (length(secret_sha256) = 32),
    edge text not null references edges (name),
    uses bigint not null check (uses >= 1),
    used bigint not null check (used >= 0 and used <= uses),
    created_at bigint not null,
    created_by text not null,
    expires_at bigint not null,
    revoked_at bigint
);

create table nodes (
    id text not null primary key,
    name text not null unique,
    edge text not null references edges (name),
    public_key_sha256 bytea not null unique check (length(public_key_sha256) = 32),
    join_token text not null references join_tokens (id),
    agent_version text not null,
    joined_at bigint not null,
    last_seen_at bigint
);
create index nodes_by_edge on nodes (edge, name);

create table plugin_versions (
    plugin text not null,
    version text not null,
    content_digest bytea not null check (length(content_digest) = 32),
    archive_sha256 bytea not null check (length(archive_sha256) = 32),
    archive_length bigint not null check (archive_length >= 0),
    description text not null,
    manifest text not null,
    pushed_at bigint not null,
    pushed_by text not null,
    primary key (plugin, version)
);
create index plugin_versions_by_archive on plugin_versions (archive_sha256);

-- The control plane's reading of the manifest's tools.
create table version_tools (
    plugin text not null,
    version text not null,
    tool text not null,
    kind text not null check (kind in ('command', 'url', 'bash', 'node', 'python')),
    url text,
    connection text,
    primary key (plugin, version, tool),
    foreign key (plugin, version) references plugin_versions (plugin, version),
    check ((kind = 'url') = (url is not null))
);

create table assignments (
    edge text not null references edges (name),
    plugin text not null,
    version text not null,
    assigned_at bigint not null,
    assigned_by text not null,
    primary key (edge, plugin),
    foreign key (plugin, version) references plugin_versions (plugin, version)
);

-- Every version that was ever the installed one of an edge, in order: pins look back at it.
create table installations (
    edge text not null references edges (name),
    plugin text not null,
    ordinal bigint not null,
    version text not null,
    installed_at bigint not null,
    primary key (edge, plugin, ordinal),
    foreign key (plugin, version) references plugin_versions (plugin, version)
);

-- What each node last said that it runs or has installed.
create table node_versions (
    node text not null references nodes (id),
    plugin text not null,
    version text not null,
    state text not null,
    reason text not null,
    tools text not null,
    primary key (node, plugin, version),
    foreign key (plugin, version) references plugin_versions (plugin, version)
);
create index node_versions_by_version on node_versions (plugin, version);

-- Canonical listings by their hash.
create table listings (
    hash text not null primary key,
    canonical text not null
);

-- That a first complete listing of a tool was recorded; an empty one counts.
create table snapshots_taken (
    plugin text not null,
    version text not null,
    tool text not null,
    scope text not null,
    connection text not null,
    -- The connection over which it was listed: on another one fewer functions are no change.
    over_connection text not null,
    taken_at bigint not null,
    taken_from text not null,
    primary key (plugin, version, tool, scope, connection),
    foreign key (plugin, version, tool) references version_tools (plugin, version, tool)
);

create table snapshots (
    plugin text not null,
    version text not null,
    tool text not null,
    function text not null,
    scope text not null,
    connection text not null,
    hash text not null references listings (hash),
    -- Order of approval: of two functions with one model name the lower stays.
    rank bigint not null,
    approved_at bigint not null,
    approved_by text not null,
    primary key (plugin, version, tool, function, scope, connection),
    foreign key (plugin, version, tool) references version_tools (plugin, version, tool)
);
create index snapshots_by_function on snapshots (plugin, tool, function);
create index snapshots_by_rank on snapshots (rank);

-- What one list showed, by the digest of all of it: nodes that list alike share it.
create table lists (
    digest bytea not null primary key check (length(digest) = 32)
);

create table list_functions (
    list bytea not null references lists (digest),
    function text not null,
    hash text references listings (hash),
    left_out text not null,
    reason text not null,
    not_shown text not null,
    primary key (list, function),
    check ((hash is null) = (left_out <> ''))
);

-- The newest report of each node, tool of a version and connection.
create table sightings (
    node text not null references nodes (id),
    plugin text not null,
    version text not null,
    tool text not null,
    connection text not null,
    boot text not null,
    sequence bigint not null,
    complete bigint not null check (complete in (0, 1)),
    incomplete_reason text not null,
    list bytea not null references lists (digest),
    address_class text not null,
    warnings text not null,
    seen_at bigint not null,
    primary key (node, plugin, version, tool, connection),
    foreign key (plugin, version, tool) references version_tools (plugin, version, tool)
);
create index sightings_by_tool on sightings (plugin, version, tool, connection);

-- Each hash of a function that differs from what the fleet goes by; seen '' means gone.
create table changes (
    plugin text not null,
    version text not null,
    tool text not null,
    function text not null,
    scope text not null,
    connection text not null,
    seen text not null,
    state text not null check (state in ('open', 'approved', 'rejected', 'restored')),
    first_seen_at bigint not null,
    first_seen_on text not null,
    primary key (plugin, version, tool, function, scope, connection, seen),
    foreign key (plugin, version, tool) references version_tools (plugin, version, tool)
);
create index changes_by_state on changes (state, plugin);

-- Where a remote tool of a version may be called, decided once for each edge.
create table pins (
    edge text not null references edges (name),
    plugin text not null,
    version text not null,
    tool text not null,
    state text not null check (state in ('pinned', 'moved', 'new')),
    -- scheme://host[:port], or connection:SUFFIX where a connection's parameter gives the host.
    endpoint text not null,
    -- JSON array of endpoints that it moved from.
    earlier text not null,
    address_class text not null,
    decided_at bigint not null,
    decided_by text not null,
    primary key (edge, plugin, version, tool),
    foreign key (plugin, version, tool) references version_tools (plugin, version, tool)
);
create index pins_by_tool on pins (plugin, tool);

-- Fleet-wide approvals of an origin; they hold on edges that get the version later.
create table origin_approvals (
    plugin text not null,
    version text not null,
    tool text not null,
    endpoint text not null,
    approved_at bigint not null,
    approved_by text not null,
    primary key (plugin, version, tool, endpoint),
    foreign key (plugin, version, tool) references version_tools (plugin, version, tool)
);

create table api_tokens (
    id text not null primary key,
    name text not null,
    secret_sha256 bytea not null check (length(secret_sha256) = 32),
    roles text not null,
    scopes text not null,
    created_at bigint not null,
    created_by text not null,
    expires_at bigint,
    revoked_at bigint
);

-- Append-only; each event holds the hash of the one before it.
create table audit (
    seq bigint not null primary key,
    at bigint not null,
    actor text not null,
    source text not null,
    name text not null,
    subject text not null,
    fields text not null,
    prev bytea not null check (length(prev) = 32),
    hash bytea not null check (length(hash) = 32)
);
create index audit_by_name on audit (name, seq);
create index audit_by_subject on audit (subject, seq);

create function audit_stays() returns trigger language plpgsql as $$
begin
    raise exception 'audit events are never edited or deleted';
end
$$;
create trigger audit_is_never_edited before update or delete on audit
for each row execute function audit_stays();

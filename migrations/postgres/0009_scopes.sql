-- Edges that go by listings of their own, what approvals did so that they can be undone, and functions that list
-- themselves differently again and again.

-- Functions that an edge does not go by though the fleet does.
create table snapshots_absent (
    plugin text not null,
    version text not null,
    tool text not null,
    function text not null,
    edge text not null references edges (name),
    approved_at bigint not null,
    approved_by text not null,
    primary key (plugin, version, tool, function, edge),
    foreign key (plugin, version, tool) references version_tools (plugin, version, tool)
);
create index snapshots_by_scope on snapshots (plugin, scope);

-- What each approval replaced; all of one approval share its id, a later one has a greater id.
create table approvals (
    id bigint not null,
    plugin text not null,
    version text not null,
    tool text not null,
    function text not null,
    -- '' stands for the fleet.
    scope text not null,
    -- '': it was not gone by.
    earlier text not null,
    -- '': it is not gone by any longer.
    now text not null,
    approved_at bigint not null,
    approved_by text not null,
    undone_at bigint,
    primary key (id, plugin, version, tool, function, scope),
    foreign key (plugin, version, tool) references version_tools (plugin, version, tool)
);
create index approvals_by_plugin on approvals (plugin, id);
create index approvals_by_earlier on approvals (earlier);
create index approvals_by_now on approvals (now);

-- Functions whose forms are not kept one by one for a while.
create table volatile_functions (
    plugin text not null,
    version text not null,
    tool text not null,
    function text not null,
    since bigint not null,
    -- When it last showed a form that nobody had seen.
    last_at bigint not null,
    -- JSON pointers to what differs.
    parts text not null,
    primary key (plugin, version, tool, function),
    foreign key (plugin, version, tool) references version_tools (plugin, version, tool)
);

-- Tools of a version that were compared, once, with what an edge had before.
create table reviews (
    edge text not null references edges (name),
    plugin text not null,
    version text not null,
    tool text not null,
    reviewed_at bigint not null,
    primary key (edge, plugin, version, tool),
    foreign key (plugin, version, tool) references version_tools (plugin, version, tool)
);

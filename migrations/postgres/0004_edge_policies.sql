-- What the nodes of an edge may do, where it differs from the defaults; an edge without a row has these.
create table edge_policies (
    edge text not null primary key references edges (name),
    strict bigint not null check (strict in (0, 1)),
    fresh_for_ms bigint not null check (fresh_for_ms > 0),
    -- 0: none.
    offline_lease_ms bigint not null check (offline_lease_ms >= 0),
    -- Words separated by spaces, in order.
    forbidden_kinds text not null,
    tool_memory_bytes bigint not null check (tool_memory_bytes > 0),
    tool_files bigint not null check (tool_files > 0),
    tool_processes bigint not null check (tool_processes > 0),
    changed_at bigint not null,
    changed_by text not null
);

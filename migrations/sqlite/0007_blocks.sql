-- Calls that a person stopped, until a person lifts that; what was lifted stays on record.
create table blocks (
    id text not null primary key,
    -- '' stands for the fleet.
    edge text not null,
    -- function ID, tool ID, plugin NAME or plugin NAME@VERSION.
    target text not null,
    reason text not null,
    blocked_at integer not null,
    blocked_by text not null,
    lifted_at integer,
    lifted_by text check ((lifted_by is null) = (lifted_at is null))
) strict;
create index blocks_in_force on blocks (edge) where lifted_at is null;

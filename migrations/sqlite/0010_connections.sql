-- What remote tools are reached with: parameters and headers as people set them, secrets and tokens sealed with a key
-- that is not in the database.
create table connections (
    plugin text not null,
    name text not null,
    -- '' stands for the fleet.
    edge text not null,
    version integer not null,
    -- JSON object of parameters that are no secrets.
    params text not null,
    -- JSON array of [name, template].
    headers text not null,
    -- JSON object, '' without.
    oauth text not null,
    set_at integer not null,
    set_by text not null,
    primary key (plugin, name, edge)
) strict;

create table connection_secrets (
    plugin text not null,
    name text not null,
    edge text not null,
    secret text not null,
    -- sealed, env:VARIABLE or file:PATH.
    source text not null,
    sealed blob,
    primary key (plugin, name, edge, secret),
    foreign key (plugin, name, edge) references connections (plugin, name, edge),
    check ((source = 'sealed') = (sealed is not null))
) strict;

create table connection_tokens (
    plugin text not null,
    name text not null,
    edge text not null,
    -- Counted up with each token.
    number integer not null,
    access blob,
    refresh blob,
    expires_at integer,
    -- Where it is from, JSON.
    endpoints text not null,
    -- Why a person has to authorize it again; '' if nobody has to.
    problem text not null,
    -- A server asks for the next one until then.
    busy_until integer not null,
    primary key (plugin, name, edge),
    foreign key (plugin, name, edge) references connections (plugin, name, edge)
) strict;

-- People on their way to an authorization server and back.
create table connection_asks (
    state_sha256 blob not null primary key,
    plugin text not null,
    name text not null,
    edge text not null,
    verifier blob not null,
    redirect text not null,
    endpoints text not null,
    asked_by text not null,
    expires_at integer not null
) strict;

-- Who a node is, beyond that it joined once: labels from its join token, whether it may still work,
-- which of several copies of it is the right one, and which authority its certificate is from. Columns
-- have defaults, so that a server of the release before can still write the rows that it knows.

alter table join_tokens add column labels text not null default '{}';

-- JSON object of text.
alter table nodes add column labels text not null default '{}';
alter table nodes add column standing text not null default 'active'
    check (standing in ('active', 'quarantined', 'evicted', 'banned'));
alter table nodes add column standing_reason text not null default '';
alter table nodes add column standing_by text not null default '';
alter table nodes add column standing_at bigint;

-- The newest session counter that the node is known to have durably; written behind, in batches.
alter table nodes add column session_counter bigint not null default 0 check (session_counter >= 0);
-- After a person picked one of several copies: its counter, and up to which counter the others are not it.
alter table nodes add column kept_session bigint;
alter table nodes add column kept_up_to bigint check ((kept_up_to is null) = (kept_session is null));
-- JSON array of the sessions that were seen of a node that has copies.
alter table nodes add column copies text not null default '[]';

-- Of the certificate that was issued last: when it ends, and SHA-256 of its authority's key (hexadecimal).
alter table nodes add column certificate_until bigint;
alter table nodes add column issuer text not null default '';
-- The authorities that the node was told to trust, with commas between.
alter table nodes add column authorities text not null default '';

-- Nodes that were taken off the record: their keys never join again.
create table former_nodes (
    id text not null primary key,
    name text not null,
    edge text not null,
    public_key_sha256 bytea not null unique check (length(public_key_sha256) = 32),
    removed_at bigint not null,
    removed_by text not null
);

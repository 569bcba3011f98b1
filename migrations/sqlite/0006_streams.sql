-- Which server a node's stream is at, written in batches by servers that share a database; empty: none. It counts
-- while `last_seen_at` is fresh, since a server that is killed takes nothing back.
alter table nodes add column stream text not null default '';

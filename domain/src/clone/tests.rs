use proptest::prelude::*;

use super::*;

/// Servers on one database.
const SERVERS: usize = 2;

/// A node's disk.
#[derive(Clone, Copy, Debug, Default)]
struct Disk {
    stored: u64,
}

/// What the servers know: one record, written behind, and a memory each.
#[derive(Clone, Debug, Default)]
struct Servers {
    record: Known,
    memory: [Known; SERVERS],
    issued: [u64; SERVERS],
}

impl Servers {
    fn known(&self, server: usize) -> Known {
        let acknowledged = self.memory[server].acknowledged.max(self.record.acknowledged);
        Known { acknowledged, pick: self.record.pick }
    }

    fn judge(&self, server: usize, presented: u64, repeats: bool) -> Verdict {
        judge(&self.known(server), presented, repeats)
    }

    fn welcome(&mut self, server: usize, presented: u64, random: u64) -> u64 {
        let counter = next(&self.known(server), presented, self.issued[server], random);
        self.issued[server] = counter;
        counter
    }

    fn acknowledge(&mut self, server: usize, counter: u64) {
        let memory = &mut self.memory[server].acknowledged;
        *memory = (*memory).max(counter);
    }

    fn flush(&mut self, server: usize) {
        self.record.acknowledged = self.record.acknowledged.max(self.memory[server].acknowledged);
    }

    fn restart(&mut self, server: usize) {
        self.memory[server] = Known::default();
        self.issued[server] = 0;
    }

    fn pick(&mut self, kept: u64, up_to: u64) {
        self.record = Known { acknowledged: kept, pick: Some(Pick { kept, up_to }) };
        self.memory = [Known::default(); SERVERS];
    }

    /// A whole exchange with a copy that lives; what it is found to be.
    fn exchange(&mut self, server: usize, disk: &mut Disk, random: u64) -> Verdict {
        let verdict = match self.judge(server, disk.stored, false) {
            Verdict::Ask => self.judge(server, disk.stored, true),
            other => other,
        };
        if verdict == Verdict::Right {
            disk.stored = self.welcome(server, disk.stored, random);
            self.acknowledge(server, disk.stored);
        }
        verdict
    }
}

/// What may happen to a node that is the only one of its kind.
#[derive(Clone, Debug)]
enum Event {
    /// It connects; how far the exchange comes: 0 the Welcome is lost, 1 it is not stored, 2 the acknowledgement
    /// is lost, 3 all of it.
    Connect { server: usize, until: u8, random: u64 },
    /// A Hello that it sent some connects ago is read now.
    Late { server: usize, which: prop::sample::Index },
    /// A server writes what it remembers.
    Flush(usize),
    /// A server is killed and starts again.
    Restart(usize),
    /// The database is restored from a copy of earlier.
    Rewind,
}

fn event() -> impl Strategy<Value = Event> {
    let server = 0..SERVERS;
    prop_oneof![
        5 => (server.clone(), 0_u8..4, any::<u64>())
            .prop_map(|(server, until, random)| Event::Connect { server, until, random }),
        2 => (server.clone(), any::<prop::sample::Index>()).prop_map(|(server, which)| Event::Late { server, which }),
        2 => server.clone().prop_map(Event::Flush),
        1 => server.prop_map(Event::Restart),
        1 => Just(Event::Rewind),
    ]
}

proptest! {
    /// R3.9: whatever is lost, late, killed or restored, and in whatever order.
    #[test]
    fn a_node_without_copies_is_never_taken_for_one(events in prop::collection::vec(event(), 1..60)) {
        let (mut servers, mut disk) = (Servers::default(), Disk::default());
        let mut said: Vec<u64> = Vec::new();
        let mut records = vec![servers.record];
        for event in events {
            match event {
                Event::Connect { server, until, random } => {
                    said.push(disk.stored);
                    prop_assert_eq!(servers.judge(server, disk.stored, false), Verdict::Right);
                    let counter = servers.welcome(server, disk.stored, random);
                    prop_assert!(counter > disk.stored);
                    if until >= 2 {
                        disk.stored = counter;
                    }
                    if until >= 3 {
                        servers.acknowledge(server, counter);
                    }
                }
                Event::Late { server, which } if !said.is_empty() => {
                    let presented = said[which.index(said.len())];
                    let verdict = servers.judge(server, presented, false);
                    prop_assert!(matches!(verdict, Verdict::Right | Verdict::Ask), "{:?}", verdict);
                    if verdict == Verdict::Right {
                        servers.welcome(server, presented, 7);
                    }
                }
                Event::Late { .. } => {}
                Event::Flush(server) => {
                    servers.flush(server);
                    records.push(servers.record);
                }
                Event::Restart(server) => servers.restart(server),
                Event::Rewind => {
                    servers.record = records[records.len() / 2];
                    (0..SERVERS).for_each(|server| servers.restart(server));
                }
            }
        }
    }

    /// Two machines with one disk's state take turns.
    #[test]
    fn of_two_copies_that_both_connect_one_is_found(
        before in prop::collection::vec((0..SERVERS, any::<u64>()), 0..5),
        turns in prop::collection::vec((0..SERVERS, any::<u64>(), any::<bool>()), 4..8),
    ) {
        let (mut servers, mut first) = (Servers::default(), Disk::default());
        for (server, random) in before {
            prop_assert_eq!(servers.exchange(server, &mut first, random), Verdict::Right);
            servers.flush(server);
        }
        let mut second = first;
        let mut found = false;
        for (turn, (server, random, restart)) in turns.into_iter().enumerate() {
            let disk = if turn % 2 == 0 { &mut first } else { &mut second };
            found |= servers.exchange(server, disk, random) == Verdict::Copy;
            servers.flush(server);
            if restart {
                servers.restart(server);
            }
        }
        prop_assert!(found);
    }

    /// A person picks either of them: that one goes on for good, the other is told each time.
    #[test]
    fn the_copy_that_a_person_picks_goes_on_and_the_other_does_not(
        (kept, other) in (0_u64..1_000, 0_u64..1_000).prop_filter("two", |(a, b)| a != b),
        turns in prop::collection::vec((0..SERVERS, any::<bool>(), any::<u64>()), 1..20),
    ) {
        let mut servers = Servers::default();
        servers.pick(kept, kept.max(other));
        let (mut kept, mut other) = (Disk { stored: kept }, Disk { stored: other });
        for (server, is_kept, random) in turns {
            let (disk, expected) = if is_kept {
                (&mut kept, Verdict::Right)
            } else {
                (&mut other, Verdict::NotKept)
            };
            prop_assert_eq!(servers.exchange(server, disk, random), expected);
            servers.flush(server);
        }
    }
}

#[test]
fn a_counter_that_was_acknowledged_and_an_older_one_are_told_apart_once_the_challenge_is_repeated() {
    let known = Known { acknowledged: 5, pick: None };
    for (presented, repeats, expected) in [
        (5, false, Verdict::Right),
        (9, false, Verdict::Right),
        (4, false, Verdict::Ask),
        (4, true, Verdict::Copy),
        (0, true, Verdict::Copy),
    ] {
        assert_eq!(judge(&known, presented, repeats), expected, "{presented} {repeats}");
    }
}

#[test]
fn a_counter_never_leaves_the_range_of_the_database_by_wrapping() {
    assert_eq!(next(&Known { acknowledged: u64::MAX, pick: None }, 0, 0, u64::MAX), u64::MAX);
}

proptest! {
    /// S3: of two sessions the earlier counts no more once the later one's counter is known to be on the disk,
    /// whatever became of the Welcomes between them; and no session bars itself or one that comes.
    #[test]
    fn a_session_ends_what_those_before_it_say_and_nothing_else(
        sessions in prop::collection::vec((any::<bool>(), any::<bool>()), 1..12),
    ) {
        let mut disk = 0;
        let mut all: Vec<Succession> = Vec::new();
        for (random, (is_kept, is_known)) in (0..).zip(sessions) {
            let known = Known { acknowledged: if is_known { disk } else { 0 }, pick: None };
            let counter = next(&known, disk, 0, random);
            let mut session = Succession::opened(disk, counter);
            let as_opened = session;
            if is_kept {
                session.keep();
                disk = counter;
                prop_assert!(as_opened.counts(disk), "what it said before it had the counter");
            }
            all.push(session);
        }
        for (at, later) in all.iter().enumerate() {
            let Some(acknowledged) = later.kept() else { continue };
            for (other, session) in all.iter().enumerate() {
                prop_assert_eq!(session.counts(acknowledged), other >= at, "{:?} {:?}", session, later);
            }
        }
    }
}

//! TIME-WAIT: a host that has closed many connections remembers little of each, and their ports serve again.

use std::net::IpAddr;

use anabranch_stack::config::{ConnectionConfig, EndpointConfig, Entropy, LocalAddress};
use anabranch_stack::endpoint::{ConnectError, Endpoint};
use anabranch_stack::event::{ConnectionId, Event};
use anabranch_stack::segment::{Address, Flags, PathId, Segment, SynOptions, Timestamps};
use anabranch_stack::seq::Seq;
use anabranch_units::{Duration, RandomStream, Time};

const PORT: u16 = 80;
/// The ports from which a host opens connections.
const PORTS: u32 = 16_384;

fn ip(host: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, host])
}

fn host(number: u8, config: &ConnectionConfig) -> Endpoint {
    let address = LocalAddress { ip: ip(number), path: PathId(0), backup: false };
    let setup = EndpointConfig { max_connections: 8, ..EndpointConfig::new(vec![address]) };
    let random = RandomStream::new(1, &format!("time-wait.{number}"));
    let mut endpoint = Endpoint::new(setup, Entropy::Seeded(random));
    endpoint.listen(PORT, config.clone());
    endpoint
}

/// Who closes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    Client,
    Server,
    Both,
}

/// A client and a server without a delay between them.
struct Two {
    client: Endpoint,
    server: Endpoint,
    config: ConnectionConfig,
    now: Time,
    opened: Option<ConnectionId>,
    accepted: Option<ConnectionId>,
    closed: u32,
    /// The last segment of either.
    last: Option<Segment>,
    /// The resets of either.
    resets: u32,
}

impl Two {
    fn new(config: ConnectionConfig) -> Two {
        let (client, server) = (host(1, &config), host(2, &config));
        let now = Time::from_secs(1);
        Two { client, server, config, now, opened: None, accepted: None, closed: 0, last: None, resets: 0 }
    }

    /// Passes segments on until neither has any.
    fn pass(&mut self) {
        loop {
            let mut quiet = true;
            for from_client in [true, false] {
                let (from, to) = match from_client {
                    true => (&mut self.client, &mut self.server),
                    false => (&mut self.server, &mut self.client),
                };
                while let Some(sent) = from.poll_transmit(self.now) {
                    quiet = false;
                    self.resets += u32::from(sent.segment.flags.has(Flags::RST));
                    self.last = Some(sent.segment);
                    to.handle_segment(self.now, PathId(0), &sent.segment, &mut Vec::new());
                }
                while let Some((id, event)) = from.poll_event() {
                    quiet = false;
                    match event {
                        Event::Accepted => self.accepted = Some(id),
                        Event::Closed(_) => self.closed += 1,
                        _ => {}
                    }
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn at(&mut self, after: Duration) {
        self.now += after;
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        self.pass();
    }

    fn open(&mut self) -> Result<(), ConnectError> {
        let config = self.config.clone();
        self.opened = Some(self.client.connect(self.now, ip(1), Address::new(ip(2), PORT), config)?);
        self.accepted = None;
        self.pass();
        Ok(())
    }

    /// Runs a connection of 1000 bytes from its SYN to the last FIN.
    fn connection(&mut self, first: First) -> Result<(), ConnectError> {
        self.open()?;
        let (Some(opened), Some(accepted)) = (self.opened, self.accepted) else {
            panic!("not accepted at {:?}", self.now)
        };
        assert_eq!(self.client.write(self.now, opened, 1000), 1000);
        self.pass();
        assert_eq!(self.server.received(accepted), 1000);
        self.server.consume(self.now, accepted, 1000);
        match first {
            First::Both => {
                self.client.close(self.now, opened);
                self.server.close(self.now, accepted);
            }
            First::Client => {
                self.client.close(self.now, opened);
                self.pass();
                self.server.close(self.now, accepted);
            }
            First::Server => {
                self.server.close(self.now, accepted);
                self.pass();
                self.client.close(self.now, opened);
            }
        }
        self.pass();
        // Delayed acknowledgements.
        self.at(Duration::from_millis(50));
        Ok(())
    }
}

fn each_config() -> [ConnectionConfig; 2] {
    [ConnectionConfig::linux(), ConnectionConfig { mptcp: false, ..ConnectionConfig::linux() }]
}

#[test]
fn an_ended_connection_leaves_some_numbers_for_a_minute() {
    for config in each_config() {
        for first in [First::Client, First::Server, First::Both] {
            let mut two = Two::new(config.clone());
            two.connection(first).unwrap();
            let counts = |two: &Two| {
                let ends = [&two.client, &two.server];
                (ends.map(Endpoint::connection_count), ends.map(Endpoint::time_waits))
            };
            assert_eq!((two.closed, two.resets), (2, 0), "{first:?}");
            let (connections, waits) = counts(&two);
            assert_eq!(connections, [0, 0], "{first:?}");
            assert!(waits.iter().sum::<usize>() >= 1, "{first:?}: {waits:?}");
            two.at(Duration::from_secs(59));
            assert_eq!(counts(&two).1, waits, "{first:?}");
            two.at(Duration::from_secs(2));
            assert_eq!(counts(&two), ([0, 0], [0, 0]), "{first:?}");
        }
    }
}

// 20 connections a second for an hour of ports: without their second use, a client has none left after 16,384.
#[test]
fn ports_serve_again_after_a_second_and_no_connection_is_refused() {
    for config in each_config() {
        for first in [First::Client, First::Server, First::Both] {
            let mut two =
                Two::new(ConnectionConfig { time_wait: Duration::from_secs(1200), ..config.clone() });
            let wanted = PORTS + 2000;
            for number in 0..wanted {
                let done = two.connection(first);
                assert!(done.is_ok(), "{first:?}: {done:?} at connection {number}");
            }
            assert_eq!((two.closed, two.resets), (2 * wanted, 0), "{first:?}");
            // One for each port, however often it was used.
            let [client, server] = [&two.client, &two.server].map(Endpoint::time_waits);
            assert!(client.max(server) <= PORTS as usize, "{first:?}: {client} and {server}");
        }
    }
}

#[test]
fn a_port_that_is_asked_for_serves_again_after_a_second_and_not_before() {
    let mut two = Two::new(ConnectionConfig::linux());
    two.connection(First::Client).unwrap();
    let last = two.last.unwrap();
    let (own, server) = match last.source.ip == ip(1) {
        true => (last.source, last.destination),
        false => (last.destination, last.source),
    };
    let again = |two: &mut Two| two.client.connect_from(two.now, own, server, two.config.clone());
    two.at(Duration::from_millis(800));
    assert_eq!(again(&mut two), Err(ConnectError::NoFreePort));
    two.at(Duration::from_millis(300));
    assert!(again(&mut two).is_ok());
    two.pass();
    assert_eq!(two.resets, 0);
}

#[test]
fn without_timestamps_a_port_waits_to_the_end() {
    let config = ConnectionConfig { timestamps: false, ..ConnectionConfig::linux() };
    let mut two = Two::new(ConnectionConfig { time_wait: Duration::from_secs(1200), ..config });
    for _ in 0..PORTS {
        two.connection(First::Client).unwrap();
    }
    assert_eq!(two.connection(First::Client), Err(ConnectError::NoFreePort));
    two.at(Duration::from_secs(1200));
    two.connection(First::Client).unwrap();
}

/// A connection that the server has closed first, and what a segment of the client with the same ends does then.
struct After {
    two: Two,
    /// The last segment of the client.
    last: Segment,
}

impl After {
    fn new(config: ConnectionConfig) -> After {
        let mut two = Two::new(config);
        two.connection(First::Server).unwrap();
        let last = two.last.unwrap();
        // The server has acknowledged the FIN of the client.
        assert_eq!((last.source.ip, two.server.time_waits()), (ip(2), 1));
        After { two, last }
    }

    /// Hands a segment of the client to the server, `by` after the last one in the sequence space and `ms` later by its timestamp.
    fn hear(&mut self, flags: Flags, by: i32, ms: Option<i32>) -> Option<Segment> {
        let seq = Seq(self.last.ack.0.wrapping_add_signed(by));
        let mut segment = Segment::new(self.last.destination, self.last.source, seq, flags);
        segment.window = 1000;
        if flags.has(Flags::SYN) {
            segment.options.syn = Some(SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true });
        }
        segment.options.timestamps = ms.map(|ms| Timestamps {
            value: self.last.options.timestamps.unwrap().echo.wrapping_add_signed(1000 * ms),
            echo: 0,
        });
        self.two.server.handle_segment(self.two.now, PathId(0), &segment, &mut Vec::new());
        let answer = self.two.server.poll_transmit(self.two.now).map(|sent| sent.segment);
        assert!(self.two.server.poll_transmit(self.two.now).is_none());
        answer
    }
}

const SA: Flags = Flags::SYN.with(Flags::ACK);

// RFC 6191, and RFC 9293 section 3.10.7.4 without timestamps.
#[test]
fn a_newer_syn_opens_a_connection_in_its_place() {
    let with = ConnectionConfig::linux();
    let without = ConnectionConfig { timestamps: false, ..with.clone() };
    let cases = [
        (&with, 1, Some(1), true),
        (&with, -70_000, Some(1), true),
        (&with, 1, Some(0), true),
        (&with, 0, Some(0), false),
        (&with, 70_000, Some(-1), false),
        (&without, 1, None, true),
        (&without, 0, None, false),
        (&without, -1, None, false),
        // A SYN without the timestamp that it should have.
        (&with, 1, None, true),
        (&with, -1, None, false),
    ];
    for (config, by, ms, opens) in cases {
        let mut after = After::new(config.clone());
        let answer = after.hear(Flags::SYN, by, ms).unwrap();
        let place = format!("{by} and {ms:?}");
        if opens {
            assert_eq!(answer.flags, SA, "{place}");
            // Beyond all that the peer may still hold of the old connection.
            let beyond = answer.seq.0.wrapping_sub(after.last.seq.0) as i32;
            assert!(beyond >= 1 << 16, "{place}: {beyond}");
            assert_eq!(
                (after.two.server.time_waits(), after.two.server.connection_count()),
                (0, 1),
                "{place}"
            );
        } else {
            assert_eq!((answer.flags, answer.seq, answer.ack), (Flags::ACK, after.last.seq, after.last.ack));
            assert_eq!(
                (after.two.server.time_waits(), after.two.server.connection_count()),
                (1, 0),
                "{place}"
            );
        }
    }
}

#[test]
fn an_answer_has_the_timestamp_of_its_time_and_the_acknowledgement_of_both_levels() {
    for config in each_config() {
        let mut after = After::new(config);
        let last = after.last;
        after.two.at(Duration::from_secs(7));
        let answer = after.hear(Flags::FIN.with(Flags::ACK), -1, Some(0)).unwrap();
        let [before, now] = [&last, &answer].map(|segment| segment.options.timestamps.unwrap());
        // A delayed acknowledgement was waited for in between.
        assert_eq!(now.value.wrapping_sub(before.value), 7_050_000);
        assert_eq!((now.echo, answer.seq, answer.ack), (before.echo, last.seq, last.ack));
        assert_eq!(
            (answer.flags, answer.window, answer.options.dss),
            (Flags::ACK, last.window, last.options.dss)
        );
        // Nothing is said to a bare acknowledgement, or to a reset that is not exact.
        assert_eq!(after.hear(Flags::ACK, 0, Some(0)), None);
        assert_eq!(after.hear(Flags::RST, 1, Some(0)), None);
        assert_eq!(after.two.server.time_waits(), 1);
        // The FIN has made it last a minute from now on.
        after.two.at(Duration::from_secs(55));
        assert_eq!(after.two.server.time_waits(), 1);
        assert_eq!(after.hear(Flags::RST, 0, Some(0)), None);
        assert_eq!(after.two.server.time_waits(), 0);
    }
}

#[test]
fn a_syn_without_a_listener_ends_nothing() {
    let mut after = After::new(ConnectionConfig::linux());
    after.two.server.stop_listening(PORT);
    assert_eq!(after.hear(Flags::SYN, 1, Some(1)).unwrap().flags, Flags::ACK);
    assert_eq!(after.two.server.time_waits(), 1);
}

// With a cookie nothing is stored, and the third segment finds nothing that is in its way.
#[test]
fn a_cookie_takes_its_place_too() {
    let mut after = After::new(ConnectionConfig::linux());
    for port in 0..1024 {
        let stranger = Address::new(ip(9), 1000 + port);
        let mut syn = Segment::new(stranger, Address::new(ip(2), PORT), Seq(1), Flags::SYN);
        syn.options.syn = Some(SynOptions { mss: 1460, window_scale: None, sack_permitted: false });
        after.two.server.handle_segment(after.two.now, PathId(0), &syn, &mut Vec::new());
        while after.two.server.poll_transmit(after.two.now).is_some() {}
    }
    let answer = after.hear(Flags::SYN, 1, Some(1)).unwrap();
    assert_eq!((answer.flags, after.two.server.time_waits()), (SA, 0));
    assert!(after.two.server.counters().cookies_sent >= 1);
}

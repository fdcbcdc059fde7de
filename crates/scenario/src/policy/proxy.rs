//! Policies of `anabranch proxy`: the treatment of connections at a client, and the clients of a server.

mod budget;

use core::fmt;
use core::ops::RangeInclusive;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anabranch_stack::scheduler::SchedulerKind;
use anabranch_units::{Bytes, Duration};

use super::{Prefix, is_named, ports, prefix};
use crate::read::files::{MOST_BYTES, read_file};
use crate::read::parameters;
use crate::text::reader::Reader;
use crate::text::source::{Problem, ScenarioError, Source, Span};
use crate::text::tree::{Node, Table};

pub use budget::{Budget, Cap, Price, SizeHint, Spent};

/// The way of a connection to its destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// Through the server side.
    #[default]
    Server,
    /// From this host.
    Direct,
    /// Through the server side, until that has reported that the destination has Multipath TCP; then from this host.
    Auto,
    /// No connection is made.
    Refuse,
}

const VIAS: [(&str, Via); 4] =
    [("server", Via::Server), ("direct", Via::Direct), ("auto", Via::Auto), ("refuse", Via::Refuse)];

/// The time at which an application gets the answer to its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// At once, so that its first data travels with the destination.
    #[default]
    Early,
    /// When the destination is connected, so that an error has its reason.
    Late,
}

const ANSWERS: [(&str, Answer); 2] = [("early", Answer::Early), ("late", Answer::Late)];

/// The kinds of sockets of the kernel to a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multipath {
    /// Multipath TCP, but plain TCP for a day to a destination that has answered without it.
    #[default]
    Remember,
    /// Always Multipath TCP.
    Always,
    /// Plain TCP.
    Never,
}

const MULTIPATHS: [(&str, Multipath); 3] =
    [("remember", Multipath::Remember), ("always", Multipath::Always), ("never", Multipath::Never)];

/// The path manager of a connection of the transport `anabranch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Joins {
    /// A subflow on each path, as soon as joins may begin.
    #[default]
    FullMesh,
    /// A subflow on a path where it helps, as the known paths are.
    Anabranch,
}

/// Path managers by their names, as in scenarios.
pub const PATH_MANAGERS: [(&str, Joins); 2] =
    [("full_mesh", Joins::FullMesh), ("anabranch", Joins::Anabranch)];

/// The treatment of a connection of an application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Treatment {
    /// Its way.
    pub via: Via,
    /// The time of the answer.
    pub answer: Answer,
    /// The scheduler of the transport `anabranch`; none for the one of the command line.
    pub scheduler: Option<SchedulerKind>,
    /// The congestion control; none for the one of the command line or of the system.
    pub congestion: Option<String>,
    /// The path manager of the transport `anabranch`; none for the one of the command line.
    pub path_manager: Option<Joins>,
    /// The paths that it may use; none for all. A name may end in `*`.
    pub paths: Option<Vec<String>>,
    /// The paths that are used only if no other is left.
    pub backup: Vec<String>,
    /// Paths that it may not use now; no key of a policy.
    pub refused: Vec<String>,
    /// The kind of its socket, if it is the kernel's.
    pub multipath: Multipath,
    /// The expected size of the data that the application sends; none if it is not known.
    pub sends: Option<Bytes>,
    /// The expected size of the data that it receives, for decisions by the memory of paths; none for the one of the command line.
    pub receives: Option<Bytes>,
}

impl Treatment {
    /// True if it may use the path.
    pub fn allows(&self, path: &str) -> bool {
        let allowed =
            self.paths.as_deref().is_none_or(|names| is_named(path, names)) || is_named(path, &self.backup);
        allowed && !is_named(path, &self.refused)
    }

    /// True if the path is used only if no other is left.
    pub fn is_backup(&self, path: &str) -> bool {
        is_named(path, &self.backup)
    }
}

/// The facts of a connection by which a rule is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// The name of the destination, if the application has given one.
    pub host: Option<&'a str>,
    /// The address of the destination, if the application has given one.
    pub address: Option<IpAddr>,
    /// The port of the destination.
    pub port: u16,
    /// The user of the application, if it has given one.
    pub user: Option<&'a str>,
    /// The user id of the application, if it runs on this host.
    pub uid: Option<u32>,
    /// The programs of the application, if they are known: paths, such as `/usr/bin/curl`.
    pub programs: &'a [String],
}

/// The facts about the process of an application for which a policy asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// The user id.
    pub uid: bool,
    /// The program.
    pub program: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    /// Names, and endings of names that begin with `*.`; none for any.
    hosts: Vec<String>,
    destinations: Vec<Prefix>,
    ports: Vec<RangeInclusive<u16>>,
    users: Vec<String>,
    uids: Vec<RangeInclusive<u32>>,
    /// Names of programs, or their whole paths.
    programs: Vec<String>,
    treatment: Treatment,
}

impl Rule {
    fn matches(&self, facts: &Facts<'_>) -> bool {
        let host = |pattern: &String| facts.host.is_some_and(|host| host_matches(pattern, host));
        let place = |net: &Prefix| facts.address.is_some_and(|address| net.contains(address));
        let user = |name: &String| facts.user == Some(name);
        // A rule with names and prefixes holds for both.
        let anywhere = self.hosts.is_empty() && self.destinations.is_empty();
        (anywhere || self.hosts.iter().any(host) || self.destinations.iter().any(place))
            && (self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(&facts.port)))
            && (self.users.is_empty() || self.users.iter().any(user))
            && (self.uids.is_empty()
                || facts.uid.is_some_and(|uid| self.uids.iter().any(|uids| uids.contains(&uid))))
            && (self.programs.is_empty()
                || self.programs.iter().any(|name| facts.programs.iter().any(|path| is_program(path, name))))
    }
}

/// True if the program at `path` has the name; a name with `/` is a whole path.
fn is_program(path: &str, name: &str) -> bool {
    // The kernel marks a program if its file was replaced, as by an update.
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    if name.starts_with('/') { path == name } else { path.rsplit('/').next() == Some(name) }
}

/// True if `host` is the name `pattern`, or ends as a pattern `*.example.org` does. A dot at the end of a name, and
/// the case of its letters, do not count.
fn host_matches(pattern: &str, host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    match pattern.strip_prefix('*') {
        Some(ending) => {
            let at = host.len().checked_sub(ending.len()).filter(|at| host.is_char_boundary(*at));
            at.is_some_and(|at| at > 0 && host[at..].eq_ignore_ascii_case(ending))
        }
        None => host.eq_ignore_ascii_case(pattern),
    }
}

/// A user of the client side.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The name that applications give, not empty.
    pub name: String,
    /// The password in clear text, as the policy has it; `Debug` does not print it.
    pub password: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The policy on the application's side: who may connect, and how connections use their paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientPolicy {
    /// The users, if applications have to give a name and a password.
    pub users: Vec<User>,
    /// The budgets of metered paths.
    pub budgets: Vec<Budget>,
    /// The greatest rates of paths.
    pub caps: Vec<Cap>,
    /// The prices of paths.
    pub prices: Vec<Price>,
    otherwise: Treatment,
    rules: Vec<Rule>,
}

const TREATMENT_KEYS: [&str; 10] = [
    "via",
    "answer",
    "scheduler",
    "congestion",
    "path-manager",
    "paths",
    "backup",
    "multipath",
    "sends",
    "receives",
];
/// The keys of a policy, and of a rule, in addition.
const CLIENT_KEYS: [&str; 5] = ["user", "budget", "cap", "price", "rule"];
const RULE_KEYS: [&str; 6] = ["host", "destination", "port", "user", "uid", "program"];
const USER_KEYS: [&str; 2] = ["name", "password"];

impl ClientPolicy {
    /// Reads the file `path`.
    ///
    /// # Errors
    /// If it cannot be read, or is not a valid policy.
    pub fn open(path: &Path) -> Result<ClientPolicy, ScenarioError> {
        ClientPolicy::parse(&path.display().to_string(), &text_of(path)?)
    }

    /// Reads the policy `text`; errors call it `name`.
    ///
    /// # Errors
    /// If it is not a valid policy.
    pub fn parse(name: &str, text: &str) -> Result<ClientPolicy, ScenarioError> {
        located(name, text, client)
    }

    /// Returns the treatment of a connection: the one of the first rule that matches, or the values outside of rules.
    pub fn treatment(&self, facts: &Facts<'_>) -> &Treatment {
        self.rules.iter().find(|rule| rule.matches(facts)).map_or(&self.otherwise, |rule| &rule.treatment)
    }

    /// Returns the facts for which a rule asks.
    pub fn questions(&self) -> Questions {
        Questions {
            uid: self.rules.iter().any(|rule| !rule.uids.is_empty()),
            program: self.rules.iter().any(|rule| !rule.programs.is_empty()),
        }
    }

    /// Returns the treatment outside of rules, then the treatments of the rules in their order.
    pub fn treatments(&self) -> impl Iterator<Item = &Treatment> {
        core::iter::once(&self.otherwise).chain(self.rules.iter().map(|rule| &rule.treatment))
    }
}

fn text_of(path: &Path) -> Result<String, ScenarioError> {
    read_file(path, MOST_BYTES).map_err(|error| ScenarioError::new(format!("{}: {error}", path.display())))
}

fn located<T>(
    name: &str,
    text: &str,
    read: impl Fn(&Table) -> Result<T, Problem>,
) -> Result<T, ScenarioError> {
    let sources = [Source { name: name.to_owned(), text: text.to_owned() }];
    Table::parse(text, 0).and_then(|table| read(&table)).map_err(|problem| problem.locate(&sources))
}

fn client(table: &Table) -> Result<ClientPolicy, Problem> {
    let nowhere = Span::default();
    let reader = Reader::new(table, &nowhere, "the policy", &[&TREATMENT_KEYS[..], &CLIENT_KEYS].concat())?;
    let otherwise = treatment(&reader, &Treatment::default())?;
    let users: Vec<User> = tables(&reader, "user", user)?;
    let rules = tables(&reader, "rule", |node| rule(node, &otherwise))?;
    let budgets = tables(&reader, "budget", budget::budget)?;
    let caps = tables(&reader, "cap", budget::cap)?;
    let prices = tables(&reader, "price", budget::price)?;
    Ok(ClientPolicy { users, budgets, caps, prices, otherwise, rules })
}

fn tables<T>(
    reader: &Reader<'_>,
    key: &str,
    read: impl Fn(&Node) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    match reader.get(key) {
        None => Ok(Vec::new()),
        Some(node) => node.array()?.iter().map(read).collect(),
    }
}

fn items<T>(
    reader: &Reader<'_>,
    key: &str,
    read: impl Fn(&Node) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    reader.get(key).map(Node::items).unwrap_or_default().iter().map(read).collect()
}

fn rule(node: &Node, otherwise: &Treatment) -> Result<Rule, Problem> {
    let reader = Reader::of(node, "a rule", &[&RULE_KEYS[..], &TREATMENT_KEYS].concat())?;
    if !TREATMENT_KEYS.iter().any(|key| reader.get(key).is_some()) {
        return Err(Problem::at(&node.span, "this rule changes nothing")
            .help("add for example `via = \"direct\"` or `backup = \"wwan0\"`"));
    }
    Ok(Rule {
        hosts: items(&reader, "host", host)?,
        destinations: items(&reader, "destination", prefix)?,
        ports: items(&reader, "port", ports)?,
        users: items(&reader, "user", Node::name)?,
        uids: items(&reader, "uid", uids)?,
        programs: items(&reader, "program", program)?,
        treatment: treatment(&reader, otherwise)?,
    })
}

fn treatment(reader: &Reader<'_>, otherwise: &Treatment) -> Result<Treatment, Problem> {
    let via = |node: &Node| Ok(VIAS[node.choice("way", &VIAS.map(|(name, _)| name))?].1);
    let answer = |node: &Node| Ok(ANSWERS[node.choice("answer", &ANSWERS.map(|(name, _)| name))?].1);
    let names = |node: &Node| node.items().iter().map(path_name).collect::<Result<Vec<_>, _>>();
    let scheduler = |node: &Node| parameters::read::<SchedulerKind>(node, None);
    Ok(Treatment {
        via: reader.optional("via", via)?.unwrap_or(otherwise.via),
        answer: reader.optional("answer", answer)?.unwrap_or(otherwise.answer),
        scheduler: reader.optional("scheduler", scheduler)?.or_else(|| otherwise.scheduler.clone()),
        congestion: reader.optional("congestion", Node::name)?.or_else(|| otherwise.congestion.clone()),
        path_manager: reader.optional("path-manager", path_manager)?.or(otherwise.path_manager),
        paths: reader.optional("paths", names)?.or_else(|| otherwise.paths.clone()),
        backup: reader.optional("backup", names)?.unwrap_or_else(|| otherwise.backup.clone()),
        refused: Vec::new(),
        multipath: reader.optional("multipath", multipath)?.unwrap_or(otherwise.multipath),
        sends: reader.optional("sends", Node::size)?.or(otherwise.sends),
        receives: reader.optional("receives", Node::size)?.or(otherwise.receives),
    })
}

/// Reads the name of a path: an address or an interface, or the beginning of one and `*`.
fn path_name(node: &Node) -> Result<String, Problem> {
    let name = node.string()?.trim();
    if let Ok(address) = name.parse::<IpAddr>() {
        // An address of IPv6 can be written in several ways.
        return Ok(address.to_string());
    }
    let plain = name.strip_suffix('*').unwrap_or(name);
    if name.is_empty() || name.len() > 40 || plain.contains(['/', ' ', '*']) {
        return Err(Problem::at(&node.span, format!("`{name}` is not the name of a path")).help(
            "write an address of --address or an interface, such as `10.86.84.3`, `fd86:8684::2` or `wwan0`, or `10.86.84.*` for all that begin so",
        ));
    }
    // Addresses of IPv6 have small letters, names of interfaces any.
    Ok(if name.contains(':') { name.to_ascii_lowercase() } else { name.to_owned() })
}

/// Reads a user id, or a range of them such as `"1000-1999"`.
fn uids(node: &Node) -> Result<RangeInclusive<u32>, Problem> {
    let Some((first, last)) = node.string().ok().and_then(|text| text.split_once('-')) else {
        return node.integer(0, u32::MAX.into()).map(|uid| uid as u32..=uid as u32).map_err(|problem| {
            problem.help(
                "give the number of the user, which `id -u NAME` prints, or a range such as \"1000-1999\"",
            )
        });
    };
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => {
            Err(Problem::at(&node.span, "this is no range of user ids")
                .help("write for example \"1000-1999\""))
        }
    }
}

/// Reads the name of a program, or its whole path.
fn program(node: &Node) -> Result<String, Problem> {
    let name = node.string()?;
    if name.is_empty() || !name.starts_with('/') && name.contains('/') {
        return Err(Problem::at(&node.span, format!("`{name}` is no program"))
            .help("write the name of its file such as `curl`, or the whole path such as `/usr/bin/curl`"));
    }
    Ok(name.to_owned())
}

fn multipath(node: &Node) -> Result<Multipath, Problem> {
    Ok(MULTIPATHS[node.choice("kind of sockets", &MULTIPATHS.map(|(name, _)| name))?].1)
}

fn path_manager(node: &Node) -> Result<Joins, Problem> {
    Ok(PATH_MANAGERS[node.choice("path manager", &PATH_MANAGERS.map(|(name, _)| name))?].1)
}

/// Reads a name of a host, or `*.` and the ending of names.
fn host(node: &Node) -> Result<String, Problem> {
    let text = node.string()?.trim();
    let name = text.strip_prefix("*.").unwrap_or(text);
    if name.is_empty() || name.len() > 253 || name.contains(['*', '/', ':', ' ']) {
        return Err(Problem::at(&node.span, format!("`{text}` is not the name of a host")).help(
            "write for example `example.org`, or `*.example.org` for all names below it; addresses are in `destination`",
        ));
    }
    Ok(text.to_owned())
}

fn user(node: &Node) -> Result<User, Problem> {
    let reader = Reader::of(node, "a user", &USER_KEYS)?;
    // RFC 1929: 1 to 255 bytes each.
    let word = |node: &Node| {
        let text = node.string()?;
        if text.is_empty() || text.len() > 255 {
            return Err(Problem::at(&node.span, "this has to have 1 to 255 bytes"));
        }
        Ok(text.to_owned())
    };
    Ok(User {
        name: reader.required("name", "\"alice\"", word)?,
        password: reader.required("password", "\"...\"", word)?,
    })
}

/// The key of a client, which its server has too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Key {
    fn parse(text: &str) -> Option<Key> {
        let text = text.as_bytes();
        let digit = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
        let mut key = [0; 32];
        if text.len() != 64 {
            return None;
        }
        for (byte, digits) in key.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(digits[0])? << 4 | digit(digits[1])?;
        }
        Some(Key(key))
    }
}

/// The addresses that a client may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// True for all addresses that are reachable from everywhere.
    pub public: bool,
    prefixes: Vec<Prefix>,
    /// The ports; none for any.
    ports: Vec<RangeInclusive<u16>>,
}

impl Default for Reach {
    fn default() -> Reach {
        Reach { public: true, prefixes: Vec::new(), ports: Vec::new() }
    }
}

impl Reach {
    /// True if this address and port may be reached.
    pub fn contains(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        let never = address.is_unspecified()
            || address.is_multicast()
            || address == IpAddr::V4(Ipv4Addr::BROADCAST)
            || port == 0;
        let place = self.names(address) || self.public && is_public(address);
        let port = self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(&port));
        !never && place && port
    }

    /// True if a prefix has the address.
    pub fn names(&self, address: IpAddr) -> bool {
        self.prefixes.iter().any(|net| net.contains(address.to_canonical()))
    }
}

/// True if an address is reachable from everywhere: it is in none of the special-purpose registries of IPv4 and IPv6.
/// // RFC 6890, and the IANA registries that it has made
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

/// Special-purpose prefixes of IPv4.
const SPECIAL_V4: [(u32, u8); 15] = [
    (0x0000_0000, 8),  // this network
    (0x0a00_0000, 8),  // private
    (0x6440_0000, 10), // carrier-grade NAT
    (0x7f00_0000, 8),  // loopback
    (0xa9fe_0000, 16), // link-local
    (0xac10_0000, 12), // private
    (0xc000_0000, 24), // protocol assignments
    (0xc000_0200, 24), // documentation
    (0xc058_6300, 24), // 6to4 relays
    (0xc0a8_0000, 16), // private
    (0xc612_0000, 15), // benchmarks
    (0xc633_6400, 24), // documentation
    (0xcb00_7100, 24), // documentation
    (0xe000_0000, 4),  // multicast
    (0xf000_0000, 4),  // reserved, broadcast
];

fn is_public_v4(ip: Ipv4Addr) -> bool {
    !SPECIAL_V4.iter().any(|(net, length)| (ip.to_bits() ^ net) >> (32 - length) == 0)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let begins = |net: u128, length: u32| (ip.to_bits() ^ net) >> (128 - length) == 0;
    let embedded = |shift: u32| Ipv4Addr::from_bits((ip.to_bits() >> shift) as u32);
    // NAT64 and 6to4 reach the address of IPv4 inside.
    if begins(0x0064_ff9b << 96, 96) {
        return is_public_v4(embedded(0));
    }
    if begins(0x2002 << 112, 16) {
        return is_public_v4(embedded(80));
    }
    // Global unicast addresses are in 2000::/3 only.
    begins(0x2000 << 112, 3)
        && !begins(0x2001 << 112, 23) // protocol assignments, Teredo, ORCHID
        && !begins(0x2001_0db8 << 96, 32) // documentation
        && !begins(0x3fff << 112, 20) // documentation
}

/// A client of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The name that the client sends with each request.
    pub name: String,
    /// The secret that client and server share.
    pub key: Key,
    /// The addresses that it may reach.
    pub reach: Reach,
    /// The greatest number of its connections.
    pub connections: u32,
    /// The greatest number of new connections a second.
    pub rate: u32,
}

/// The policy on the remote side: who may connect, and to where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPolicy {
    /// The clients that are served; others are refused.
    pub clients: Vec<Client>,
    /// The time after which a connection without data is closed.
    pub idle: Duration,
    /// The kind of sockets to destinations.
    pub multipath: Multipath,
    /// The expected sizes of what destinations send.
    pub sizes: Vec<SizeHint>,
}

const LIMIT_KEYS: [&str; 4] = ["allow", "port", "connections", "rate"];
/// The keys of a server's policy, and of a client in it, in addition.
const SERVER_KEYS: [&str; 4] = ["idle", "multipath", "size", "client"];
const CLIENT_ENTRY_KEYS: [&str; 2] = ["name", "key"];
/// The length of a name of a client, in bytes.
const LONGEST_NAME: usize = 32;

impl ServerPolicy {
    /// Reads the file `path`.
    ///
    /// # Errors
    /// If it cannot be read, or is not a valid policy.
    pub fn open(path: &Path) -> Result<ServerPolicy, ScenarioError> {
        ServerPolicy::parse(&path.display().to_string(), &text_of(path)?)
    }

    /// Reads the policy `text`; errors call it `name`.
    ///
    /// # Errors
    /// If it is not a valid policy.
    pub fn parse(name: &str, text: &str) -> Result<ServerPolicy, ScenarioError> {
        located(name, text, server)
    }

    /// Returns the client that sends `name`; none if it is unknown.
    pub fn client(&self, name: &str) -> Option<&Client> {
        self.clients.iter().find(|client| client.name == name)
    }

    /// Returns the expected size of what a destination at this port sends; none if it is not known.
    pub fn size(&self, port: u16) -> Option<Bytes> {
        let mut hints = self.sizes.iter();
        let hint =
            hints.find(|hint| hint.ports.is_empty() || hint.ports.iter().any(|ports| ports.contains(&port)));
        hint.map(|hint| hint.size)
    }

    /// Returns the text of a policy with one client, which is also the file of this client's key.
    pub fn text_of_key(name: &str, key: Key) -> Result<String, ScenarioError> {
        let text = format!("[[client]]\nname = \"{name}\"\nkey = \"{key}\"\n");
        ServerPolicy::parse("the name", &text).map(|_| text)
    }
}

fn server(table: &Table) -> Result<ServerPolicy, Problem> {
    let nowhere = Span::default();
    let reader =
        Reader::new(table, &nowhere, "the server's policy", &[&LIMIT_KEYS[..], &SERVER_KEYS].concat())?;
    let limits = limits(&reader, &Limits::default())?;
    let idle = reader.optional("idle", Node::positive_time)?.unwrap_or(Duration::from_secs(3600));
    let multipath = reader.optional("multipath", multipath)?.unwrap_or_default();
    let mut clients: Vec<Client> = Vec::new();
    for node in reader.get("client").map(Node::array).transpose()?.unwrap_or_default() {
        let one = client_entry(node, &limits)?;
        if clients.iter().any(|other| other.name == one.name) {
            return Err(Problem::at(&node.span, format!("there is another client called `{}`", one.name))
                .help("give each client a name of its own"));
        }
        clients.push(one);
    }
    if clients.is_empty() {
        return Err(Problem::at(reader.span, "the policy has no `[[client]]`")
            .help("add the output of `anabranch proxy --new-key NAME`"));
    }
    let sizes = tables(&reader, "size", budget::size_hint)?;
    Ok(ServerPolicy { clients, idle, multipath, sizes })
}

/// The limits of clients that have none in their own table.
#[derive(Clone)]
struct Limits {
    reach: Reach,
    connections: u32,
    rate: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { reach: Reach::default(), connections: 10_000, rate: 200 }
    }
}

/// The greatest rate bounds the memory of a client's nonces.
const MOST_RATE: i64 = 10_000;

fn limits(reader: &Reader<'_>, otherwise: &Limits) -> Result<Limits, Problem> {
    let mut reach = otherwise.reach.clone();
    if let Some(node) = reader.get("allow") {
        (reach.public, reach.prefixes) = (false, Vec::new());
        for item in node.items() {
            match item.string()? {
                "public" => reach.public = true,
                _ => reach.prefixes.push(prefix(item).map_err(|problem| {
                    problem
                        .help("write `public`, or for example `10.0.0.0/8`, `2001:db8::/32`, or one address")
                })?),
            }
        }
    }
    if reader.get("port").is_some() {
        reach.ports = items(reader, "port", ports)?;
    }
    let count = |key: &str, most: i64, otherwise: u32| {
        let read = |node: &Node| node.integer(1, most).map(|count| count as u32);
        reader.optional(key, read).map(|count| count.unwrap_or(otherwise))
    };
    Ok(Limits {
        reach,
        connections: count("connections", 1_000_000, otherwise.connections)?,
        rate: count("rate", MOST_RATE, otherwise.rate)?,
    })
}

fn client_entry(node: &Node, otherwise: &Limits) -> Result<Client, Problem> {
    let reader = Reader::of(node, "a client", &[&CLIENT_ENTRY_KEYS[..], &LIMIT_KEYS].concat())?;
    let name = |node: &Node| {
        let name = node.string()?;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(fits) {
            return Err(Problem::at(&node.span, "this is no name of a client")
                .help("give 1 to 32 letters, digits and `-_.@`"));
        }
        Ok(name.to_owned())
    };
    let key = |node: &Node| {
        Key::parse(node.string()?.trim()).ok_or_else(|| {
            Problem::at(&node.span, "this is no key")
                .help("a key has 64 hexadecimal digits; `anabranch proxy --new-key NAME` makes one")
        })
    };
    let limits = limits(&reader, otherwise)?;
    Ok(Client {
        name: reader.required("name", "\"laptop\"", name)?,
        key: reader.required("key", "\"...\"", key)?,
        reach: limits.reach,
        connections: limits.connections,
        rate: limits.rate,
    })
}

#[cfg(test)]
mod tests;

//! Policies: which paths the kernel's connections use, by destination, port and interface (`anabranch kernel steer`), and
//! policies of the [`proxy`].

pub mod proxy;

use core::ops::RangeInclusive;
use std::net::IpAddr;
use std::path::Path;

use anabranch_units::Bytes;

use crate::read::files::{MOST_BYTES, read_file};
use crate::text::reader::Reader;
use crate::text::source::{Problem, ScenarioError, Source, Span};
use crate::text::tree::{Node, Table};

/// The use of the subflows of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Use {
    /// The subflows that DMPTCP selects; the others are backups.
    #[default]
    Dmptcp,
    /// All subflows, but for backup interfaces.
    All,
    /// The connection is left as it is.
    Nothing,
}

const USES: [(&str, Use); 3] = [("dmptcp", Use::Dmptcp), ("all", Use::All), ("nothing", Use::Nothing)];

/// A prefix of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// True if the address has this prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.length.min(32));
                (own.to_bits() ^ other.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.length.min(128));
                (own.to_bits() ^ other.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// The treatment of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Treatment {
    /// The subflows that carry data.
    pub subflow_use: Use,
    /// The interfaces for further subflows; none for all. A name may end in `*`.
    pub interfaces: Option<Vec<String>>,
    /// The interfaces that are used only if no other is left.
    pub backup: Vec<String>,
    /// The greatest number of subflows, including the initial one.
    pub most_subflows: usize,
    /// The expected size of the data that the peer sends in one go; none if it is unknown.
    pub receives: Option<Bytes>,
    /// True if the addresses of this host are announced to clients.
    pub announce: bool,
}

/// The largest number of subflows of the kernel (`MPTCP_SUBFLOWS_MAX`).
const MOST_SUBFLOWS: usize = 8;

impl Default for Treatment {
    fn default() -> Treatment {
        Treatment {
            subflow_use: Use::default(),
            interfaces: None,
            backup: Vec::new(),
            most_subflows: MOST_SUBFLOWS,
            receives: None,
            announce: false,
        }
    }
}

/// True if `name` is one of `names`, or has the beginning of one that ends in `*`.
fn is_named(name: &str, names: &[String]) -> bool {
    names.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    })
}

impl Treatment {
    /// True if further subflows may use the interface.
    pub fn allows(&self, interface: &str) -> bool {
        self.interfaces.as_deref().is_none_or(|names| is_named(interface, names))
            || is_named(interface, &self.backup)
    }

    /// True if the interface is used only if no other is left.
    pub fn is_backup(&self, interface: &str) -> bool {
        is_named(interface, &self.backup)
    }
}

/// A treatment for some connections.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// The prefixes of the peer's address; none for any.
    destinations: Vec<Prefix>,
    /// The server's ports; none for any.
    ports: Vec<RangeInclusive<u16>>,
    treatment: Treatment,
}

/// A valid policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    otherwise: Treatment,
    rules: Vec<Rule>,
}

const TREATMENT_KEYS: [&str; 6] = ["use", "interfaces", "backup", "subflows", "receives", "announce"];
const FILE_KEYS: [&str; 7] = ["use", "interfaces", "backup", "subflows", "receives", "announce", "rule"];
const RULE_KEYS: [&str; 8] =
    ["destination", "port", "use", "interfaces", "backup", "subflows", "receives", "announce"];

impl Policy {
    /// Reads the file `path`.
    ///
    /// # Errors
    /// If it cannot be read, or is not a valid policy.
    pub fn open(path: &Path) -> Result<Policy, ScenarioError> {
        let text = read_file(path, MOST_BYTES)
            .map_err(|error| ScenarioError::new(format!("{}: {error}", path.display())))?;
        Policy::parse(&path.display().to_string(), &text)
    }

    /// Reads the policy `text`; errors call it `name`.
    ///
    /// # Errors
    /// If it is not a valid policy.
    pub fn parse(name: &str, text: &str) -> Result<Policy, ScenarioError> {
        let sources = [Source { name: name.to_owned(), text: text.to_owned() }];
        Table::parse(text, 0).and_then(|table| read(&table)).map_err(|problem| problem.locate(&sources))
    }

    /// Returns the treatment of a connection with this peer, and this port of its server: the first rule that
    /// matches, or the values outside of rules.
    pub fn treatment(&self, peer: IpAddr, server_port: u16) -> &Treatment {
        let matches = |rule: &&Rule| {
            let place =
                rule.destinations.is_empty() || rule.destinations.iter().any(|net| net.contains(peer));
            let port = rule.ports.is_empty() || rule.ports.iter().any(|ports| ports.contains(&server_port));
            place && port
        };
        self.rules.iter().find(matches).map_or(&self.otherwise, |rule| &rule.treatment)
    }
}

fn read(table: &Table) -> Result<Policy, Problem> {
    let nowhere = Span::default();
    let reader = Reader::new(table, &nowhere, "the policy", &FILE_KEYS)?;
    let otherwise = treatment(&reader, &Treatment::default())?;
    let rules = match reader.get("rule") {
        None => Vec::new(),
        Some(node) => node.array()?.iter().map(|node| rule(node, &otherwise)).collect::<Result<_, _>>()?,
    };
    Ok(Policy { otherwise, rules })
}

fn rule(node: &Node, otherwise: &Treatment) -> Result<Rule, Problem> {
    let reader = Reader::of(node, "a rule", &RULE_KEYS)?;
    if !RULE_KEYS.iter().any(|key| TREATMENT_KEYS.contains(key) && reader.get(key).is_some()) {
        return Err(Problem::at(&node.span, "this rule changes nothing")
            .help("add for example `use = \"nothing\"` or `backup = \"wwan0\"`"));
    }
    let all = |key: &str| reader.get(key).map(Node::items).unwrap_or_default();
    Ok(Rule {
        destinations: all("destination").iter().map(prefix).collect::<Result<_, _>>()?,
        ports: all("port").iter().map(ports).collect::<Result<_, _>>()?,
        treatment: treatment(&reader, otherwise)?,
    })
}

fn treatment(reader: &Reader<'_>, otherwise: &Treatment) -> Result<Treatment, Problem> {
    let choice = |node: &Node| {
        let at = node.choice("use of subflows", &USES.map(|(name, _)| name))?;
        Ok(USES[at].1)
    };
    let names = |node: &Node| node.items().iter().map(interface).collect::<Result<Vec<_>, _>>();
    let subflows = |node: &Node| node.integer(1, MOST_SUBFLOWS as i64).map(|count| count as usize);
    Ok(Treatment {
        subflow_use: reader.optional("use", choice)?.unwrap_or(otherwise.subflow_use),
        interfaces: reader.optional("interfaces", names)?.or_else(|| otherwise.interfaces.clone()),
        backup: reader.optional("backup", names)?.unwrap_or_else(|| otherwise.backup.clone()),
        most_subflows: reader.optional("subflows", subflows)?.unwrap_or(otherwise.most_subflows),
        receives: reader.optional("receives", Node::positive_size)?.or(otherwise.receives),
        announce: reader.optional("announce", Node::boolean)?.unwrap_or(otherwise.announce),
    })
}

/// Reads the name of an interface, by the kernel's rules, or the beginning of one with a `*`.
fn interface(node: &Node) -> Result<String, Problem> {
    let name = node.string()?.trim();
    let plain = name.strip_suffix('*').unwrap_or(name);
    let fits = name.len() <= 15 && !name.is_empty() && !plain.contains(['/', ' ', ':', '*']);
    if !fits {
        return Err(Problem::at(&node.span, format!("`{name}` is not the name of an interface"))
            .help("write for example `wlan0`, or `ww*` for all that begin so"));
    }
    Ok(name.to_owned())
}

fn prefix(node: &Node) -> Result<Prefix, Problem> {
    let text = node.string()?.trim();
    let wrong = || {
        Problem::at(&node.span, format!("`{text}` is no prefix of addresses"))
            .help("write for example `10.0.0.0/8`, `2001:db8::/32`, or one address")
    };
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Ok(most), |length| length.parse().map_err(|_| wrong()))?;
    if length > most {
        return Err(wrong());
    }
    Ok(Prefix { address, length })
}

/// Reads a port, or a range of ports such as `"8000-8100"`.
fn ports(node: &Node) -> Result<RangeInclusive<u16>, Problem> {
    let port = |node: &Node| node.integer(1, 65_535).map(|port| port as u16);
    let Some((first, last)) = node.string().ok().and_then(|text| text.split_once('-')) else {
        return port(node).map(|port| port..=port);
    };
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(first..=last),
        _ => {
            Err(Problem::at(&node.span, "this is no range of ports").help("write for example \"8000-8100\""))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        backup = 'wwan0'
        [[rule]]
        destination = ['10.0.0.0/8', '2001:db8::/32']
        port = [443, '8000-8100']
        use = 'all'
        interfaces = ['wlan*']
        [[rule]]
        destination = '10.1.2.3'
        receives = '200 KB'
        subflows = 2
    ";

    #[test]
    fn the_first_rule_that_matches_holds() {
        let policy = Policy::parse("p.toml", TEXT).unwrap();
        let of = |peer: &str, port| policy.treatment(peer.parse().unwrap(), port);
        let tls = of("10.1.2.3", 443);
        assert_eq!((tls.subflow_use, tls.receives), (Use::All, None));
        assert!(tls.allows("wlan1") && tls.allows("wwan0") && !tls.allows("eth0") && tls.is_backup("wwan0"));
        assert_eq!(of("2001:db8::1", 8050).subflow_use, Use::All);
        assert_eq!(of("::ffff:10.9.9.9", 8100).subflow_use, Use::All);
        let web = of("10.1.2.3", 80);
        assert_eq!((web.receives, web.most_subflows), (Some(Bytes(200_000)), 2));
        assert_eq!(
            of("192.0.2.1", 443),
            &Treatment { backup: vec!["wwan0".to_owned()], ..Treatment::default() }
        );
        assert_eq!(Policy::parse("", "").unwrap(), Policy::default());
    }

    #[test]
    fn an_error_has_its_place_and_a_remedy() {
        for (text, words) in [
            ("used = 'all'", ["p.toml:1:1", "did you mean `use`?"]),
            ("use = 'some'", ["p.toml:1:7", "there are dmptcp, all and nothing"]),
            ("subflows = 9", ["9 is out of range", "from 1 to 8"]),
            ("[[rule]]\nport = 0\nuse = 'all'", ["p.toml:2:8", "from 1 to 65535"]),
            ("[[rule]]\nport = '9-8'\nuse = 'all'", ["p.toml:2:8", "8000-8100"]),
            ("[[rule]]\ndestination = '10.0.0.0/33'\nuse = 'all'", ["p.toml:2:15", "10.0.0.0/8"]),
            ("[[rule]]\nport = 80", ["this rule changes nothing", "use = \"nothing\""]),
            ("backup = 'a/b'", ["p.toml:1:10", "ww*"]),
        ] {
            let error = Policy::parse("p.toml", text).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
        }
    }

    #[test]
    fn a_prefix_of_no_bits_has_all_addresses_of_its_family() {
        let all = Prefix { address: "0.0.0.0".parse().unwrap(), length: 0 };
        assert!(all.contains("255.1.2.3".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
    }

    #[test]
    fn the_name_of_an_interface_has_at_most_fifteen_bytes() {
        let of = |name: &str| Policy::parse("p.toml", &format!("backup = '{name}'"));
        assert!(of("a23456789012345").is_ok());
        // IFNAMSIZ is 16 with its end.
        assert!(of("a234567890123456").is_err() && of("").is_err());
    }

    #[test]
    fn a_rule_has_the_values_outside_of_rules_that_it_does_not_set() {
        let text = "use = 'all'\nsubflows = 3\nreceives = '9 KB'\nannounce = true\ninterfaces = 'wl*'\n[[rule]]\nport = 80\nsubflows = 2";
        let policy = Policy::parse("p.toml", text).unwrap();
        let peer = "192.0.2.1".parse().unwrap();
        let (own, otherwise) = (policy.treatment(peer, 80), policy.treatment(peer, 81));
        assert_eq!(own, &Treatment { most_subflows: 2, ..otherwise.clone() });
        assert_eq!((own.subflow_use, own.receives, own.announce), (Use::All, Some(Bytes(9000)), true));
    }
}

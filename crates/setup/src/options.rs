//! The options of `anabranch tun setup`.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{Ipv4Net, Ipv6Net};

use super::SetupError;

/// The device that a setup makes unless another name is given.
pub const DEFAULT_DEVICE: &str = "anabranch0";
/// The default IPv4 prefix: private by RFC 1918, and easy to remember from RFC 8684.
pub const DEFAULT_PREFIX: &str = "10.86.84.0/24";
/// The default IPv6 prefix. Not drawn at random as RFC 4193 section 3.2 requires, because it is visible on
/// this host only: outgoing packets are masqueraded.
pub const DEFAULT_PREFIX6: &str = "fd86:8684::/64";

/// The address families of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// Each family with a global address on the interface.
    Any,
    /// IPv4 only.
    Ipv4,
    /// IPv6 only.
    Ipv6,
}

/// A real interface that carries a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSpec {
    /// Its name, such as `wlan0`.
    pub interface: String,
    /// Gateways that replace the gateways of the main table, at most one of each family.
    pub via: Vec<IpAddr>,
}

/// The options of a setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The name of the TUN device.
    pub device: String,
    /// The paths, in the order of their addresses.
    pub paths: Vec<PathSpec>,
    /// The prefix of the IPv4 addresses.
    pub prefix: Ipv4Net,
    /// The prefix of the IPv6 addresses.
    pub prefix6: Ipv6Net,
    /// The address families.
    pub families: Families,
    /// The device's MTU in bytes; by default the smallest of the paths'.
    pub mtu: Option<u32>,
    /// The user id that may open the device without being root.
    pub owner: Option<u32>,
    /// The number of hosts that share the device, at least 1: each has an address of its own for each path.
    pub hosts: u16,
}

impl Options {
    /// Returns the default options with these paths.
    pub fn new(paths: Vec<PathSpec>) -> Options {
        Options {
            device: DEFAULT_DEVICE.to_owned(),
            paths,
            // Constants, which a test parses.
            prefix: DEFAULT_PREFIX.parse().unwrap_or_default(),
            prefix6: DEFAULT_PREFIX6.parse().unwrap_or_default(),
            families: Families::Any,
            mtu: None,
            owner: None,
            hosts: 1,
        }
    }

    /// Checks the options as far as they do not depend on the host.
    pub(super) fn check(&self) -> Result<(), SetupError> {
        check_name(&self.device)?;
        let space =
            super::layout::capacity(self.prefix.into()).min(super::layout::capacity(self.prefix6.into()));
        if self.paths.len() as u64 * u64::from(self.hosts) > space {
            let hosts = if self.hosts > 1 { format!(" for {} hosts", self.hosts) } else { String::new() };
            return Err(SetupError::Usage(format!(
                "{} paths{hosts} do not fit into {} and {}, which have space for {space}; give larger ones with \
                 --prefix and --prefix6",
                self.paths.len(),
                self.prefix,
                self.prefix6
            )));
        }
        // RFC 8200 section 5: IPv6 needs 1280; RFC 791 requires 576 of every host.
        if let Some(mtu) = self.mtu
            && !(576..=65_535).contains(&mtu)
        {
            return Err(SetupError::Usage(format!("an MTU of {mtu} bytes is not between 576 and 65535")));
        }
        for (n, path) in self.paths.iter().enumerate() {
            check_name(&path.interface)?;
            if path.interface == self.device {
                return Err(SetupError::Usage(format!("{} cannot be its own path", path.interface)));
            }
            if self.paths[..n].contains(path) {
                return Err(SetupError::Usage(format!(
                    "path {} is given twice; two paths through one interface need different gateways: \
                     {},via=GATEWAY",
                    path.interface, path.interface
                )));
            }
        }
        Ok(())
    }
}

/// Accepts the names that the kernel accepts (`dev_valid_name`), without those that have a special meaning
/// for nft (`*`) or a shell.
fn check_name(name: &str) -> Result<(), SetupError> {
    let fits = (1..=15).contains(&name.len()) && name != "." && name != "..";
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-@".contains(c);
    if fits && name.chars().all(plain) && !name.starts_with('-') && !matches!(name, "all" | "default") {
        return Ok(());
    }
    Err(SetupError::Usage(format!(
        "{name:?} is not a valid interface name: 1 to 15 letters, digits, `_`, `.`, `-` or `@`"
    )))
}

/// Returns the id of the user `text`, which is a name or a number.
///
/// # Errors
///
/// The user does not exist.
pub fn user_id(text: &str) -> Result<u32, String> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    match nix::unistd::User::from_name(text) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        _ => Err(format!("there is no user `{text}`")),
    }
}

/// Returns the id of the group `text`, which is a name or a number.
///
/// # Errors
///
/// The group does not exist.
pub fn group_id(text: &str) -> Result<u32, String> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    match nix::unistd::Group::from_name(text) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        _ => Err(format!("there is no group `{text}`")),
    }
}

impl FromStr for PathSpec {
    type Err = String;

    /// Parses `IFACE[,via=GATEWAY]...`.
    fn from_str(text: &str) -> Result<PathSpec, String> {
        let mut parts = text.split(',');
        let interface = parts.next().unwrap_or_default().to_owned();
        check_name(&interface).map_err(|error| error.to_string())?;
        let mut via: Vec<IpAddr> = Vec::new();
        for part in parts {
            let gateway = part
                .strip_prefix("via=")
                .ok_or_else(|| format!("`{part}` is unknown; only `via=GATEWAY` may follow the interface"))?;
            let gateway: IpAddr =
                gateway.parse().map_err(|_| format!("`{gateway}` is not the address of a gateway"))?;
            if via.iter().any(|other| other.is_ipv4() == gateway.is_ipv4()) {
                return Err("a path has at most one gateway of each family".to_owned());
            }
            via.push(gateway);
        }
        Ok(PathSpec { interface, via })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_prefixes_are_what_they_are_said_to_be() {
        let options = Options::new(Vec::new());
        assert_eq!(options.prefix.to_string(), DEFAULT_PREFIX);
        assert_eq!(options.prefix6.to_string(), DEFAULT_PREFIX6);
        assert!(options.prefix.addr().is_private());
        assert!(options.prefix6.addr().is_unique_local());
    }

    #[test]
    fn a_path_is_an_interface_and_perhaps_gateways() {
        let path: PathSpec = "wlan0,via=192.168.1.1,via=fe80::1".parse().unwrap();
        assert_eq!(path.interface, "wlan0");
        assert_eq!(path.via.len(), 2);
        for wrong in ["", "a b", "wlan*", "x,via=1", "x,metric=3", "x,via=1.2.3.4,via=1.2.3.5", "-d", "../up"]
        {
            assert!(wrong.parse::<PathSpec>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_user_has_a_name_or_a_number() {
        assert_eq!(user_id("root"), Ok(0));
        assert_eq!(user_id("1000"), Ok(1000));
        assert!(user_id("no such user").is_err());
    }

    #[test]
    fn what_is_wrong_in_itself_is_refused() {
        let with = |change: &dyn Fn(&mut Options)| {
            let mut options = Options::new(vec!["a".parse().unwrap(), "b".parse().unwrap()]);
            change(&mut options);
            options.check()
        };
        assert!(with(&|_| ()).is_ok());
        assert!(with(&|o| o.device = "a".into()).is_err());
        assert!(with(&|o| o.device = "a/b".into()).is_err());
        assert!(with(&|o| o.mtu = Some(100)).is_err());
        assert!(with(&|o| o.paths[1] = o.paths[0].clone()).is_err());
        assert!(with(&|o| o.prefix = "10.0.0.0/30".parse().unwrap()).is_err());
        assert!(with(&|o| o.paths[1] = "a,via=1.2.3.4".parse().unwrap()).is_ok());
    }
}

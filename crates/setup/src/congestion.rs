//! Chooses the kernel's congestion control, as the default of this network namespace or of a route, and undoes that exactly.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::SetupError;
use super::state::Store;
use super::system::{Action, System};

/// The sysctl with the default of a network namespace.
const DEFAULT: &str = "net/ipv4/tcp_congestion_control";
/// The record of this namespace, in the directory that has the records of devices.
const RECORD: &str = "congestion.record";

/// One change, as it is recorded before it is made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Change {
    /// The kernel's name of the chosen congestion control.
    name: String,
    what: What,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    /// The default; the value was this one.
    Default { before: String },
    /// A route; these words of `ip` undo it.
    Route { destination: String, undo: String },
}

impl What {
    fn describe(&self) -> String {
        match self {
            What::Default { before } => format!("the default is {before} again"),
            What::Route { destination, .. } => format!("the route to {destination} is as before"),
        }
    }
}

fn read(store: &Store) -> Result<Vec<Change>, SetupError> {
    let path = store.file(RECORD);
    match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text)
            .map_err(|error| SetupError::Failed(format!("{} cannot be parsed: {error}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(SetupError::Failed(format!("cannot read {}: {error}", path.display()))),
    }
}

fn write(store: &Store, changes: &[Change]) -> Result<(), SetupError> {
    let path = store.file(RECORD);
    let result = if changes.is_empty() {
        fs::remove_file(&path)
    } else {
        fs::write(&path, serde_json::to_string_pretty(changes).unwrap_or_default())
    };
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(SetupError::Failed(format!("cannot write {}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Makes `name` the congestion control of new connections: of all of this network namespace if `default`, and of those to
/// `destinations` (addresses or prefixes). If a step fails, the steps before it are undone.
///
/// # Errors
///
/// Any [`SetupError`].
pub fn choose(
    name: &str,
    default: bool,
    destinations: &[String],
    system: &mut dyn System,
    root: &Path,
) -> Result<(), SetupError> {
    if !default && destinations.is_empty() {
        return Ok(());
    }
    let store = Store::open(root)?;
    let mut changes = read(&store)?;
    let made = make_all(name, default, destinations, system, &store, &mut changes);
    if made.is_err() {
        // The error that comes first is the one to report.
        let _ = undo(&store, changes, name, system);
    }
    made
}

fn make_all(
    name: &str,
    default: bool,
    destinations: &[String],
    system: &mut dyn System,
    store: &Store,
    changes: &mut Vec<Change>,
) -> Result<(), SetupError> {
    let mut make = |what: What, action: Action, system: &mut dyn System| {
        changes.push(Change { name: name.to_owned(), what });
        write(store, changes)?;
        system.act(&action).map(drop).map_err(SetupError::Failed)
    };
    if default {
        let before = system.read(&format!("/proc/sys/{DEFAULT}")).unwrap_or_default();
        let action = Action::Sysctl { key: DEFAULT.to_owned(), value: name.to_owned() };
        make(What::Default { before }, action, system)?;
    }
    for destination in destinations {
        let (line, undo) = route(destination, name, system)?;
        make(What::Route { destination: destination.clone(), undo }, Action::run(&line), system)?;
    }
    Ok(())
}

/// Returns the words of `ip` that choose `name` for a destination, and those that undo it.
fn route(destination: &str, name: &str, system: &mut dyn System) -> Result<(String, String), SetupError> {
    if destination.is_empty()
        || destination.contains(|c: char| !(c.is_ascii_alphanumeric() || ".:/".contains(c)))
    {
        return Err(SetupError::Usage(format!("`{destination}` is no address and no prefix")));
    }
    let family = if destination.contains(':') { "-6" } else { "-4" };
    let ask =
        |line: String, system: &mut dyn System| system.act(&Action::run(&line)).map_err(SetupError::Failed);
    let found = ask(format!("ip {family} route show exact {destination}"), system)?;
    let lines: Vec<&str> = found.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines[..] {
        [line] => {
            let before = words_of(line, &[], &["linkdown", "dead"]);
            let without = words_of(line, &["congctl"], &["linkdown", "dead", "lock"]);
            Ok((
                format!("ip {family} route change {without} congctl {name}"),
                format!("ip {family} route change {before}"),
            ))
        }
        [] => {
            let address = destination.split('/').next().unwrap_or_default();
            let got = ask(format!("ip {family} -o route get {address}"), system)?;
            let words: Vec<&str> = got.split_whitespace().collect();
            let after = |key: &str| {
                let at = words.iter().position(|word| *word == key)?;
                words.get(at + 1).map(|value| format!(" {key} {value}"))
            };
            let Some(device) = after("dev").filter(|_| words.first() != Some(&"local")) else {
                return Err(SetupError::Refused(format!("there is no route to {destination}")));
            };
            let way = format!("{destination}{}{device}", after("via").unwrap_or_default());
            Ok((
                format!("ip {family} route add {way} congctl {name}"),
                format!("ip {family} route del {way}"),
            ))
        }
        _ => Err(SetupError::Refused(format!(
            "there are several routes to {destination}; use `ip route change ... congctl {name}` for the right one"
        ))),
    }
}

/// Returns the words of a route as `ip` shows it, without `flags`, and without `keys` and their values.
fn words_of(line: &str, keys: &[&str], flags: &[&str]) -> String {
    let mut words = line.split_whitespace();
    let mut left = Vec::new();
    while let Some(word) = words.next() {
        if keys.contains(&word) {
            words.next();
        } else if !flags.contains(&word) {
            left.push(word);
        }
    }
    left.join(" ")
}

/// Undoes what [`choose`] has changed for `name` in this network namespace. Returns the changes that were undone, and
/// the values that were left because another program has changed them since.
///
/// # Errors
///
/// Any [`SetupError`]. The rest is undone nevertheless.
pub fn undo_choice(name: &str, system: &mut dyn System, root: &Path) -> Result<Vec<String>, SetupError> {
    if !Store::read_only(root)?.file(RECORD).exists() {
        return Ok(Vec::new());
    }
    let store = Store::open(root)?;
    let changes = read(&store)?;
    undo(&store, changes, name, system)
}

fn undo(
    store: &Store,
    changes: Vec<Change>,
    name: &str,
    system: &mut dyn System,
) -> Result<Vec<String>, SetupError> {
    let (own, others): (Vec<Change>, Vec<Change>) =
        changes.into_iter().partition(|change| change.name == name);
    let (mut texts, mut failed) = (Vec::new(), None);
    for change in own.iter().rev() {
        let action = match &change.what {
            What::Default { before } => {
                let now = system.read(&format!("/proc/sys/{DEFAULT}")).unwrap_or_default();
                if now != name {
                    texts.push(format!("left alone: the default, which is {now}"));
                    continue;
                }
                Action::Sysctl { key: DEFAULT.to_owned(), value: before.clone() }
            }
            What::Route { undo, .. } => Action::run(undo),
        };
        match system.act(&action) {
            Ok(_) => texts.push(change.what.describe()),
            // The route may have gone with its interface.
            Err(error) if matches!(change.what, What::Route { .. }) => {
                texts.push(format!("left alone: {error}"))
            }
            Err(error) => failed = Some(SetupError::Failed(error)),
        }
    }
    write(store, &others)?;
    failed.map_or(Ok(texts), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host that answers questions from a list, and notes changes.
    struct Fake {
        answers: Vec<(&'static str, &'static str)>,
        default: String,
        done: Vec<String>,
    }

    impl System for Fake {
        fn act(&mut self, action: &Action) -> Result<String, String> {
            let line = action.to_string();
            if let Some((_, answer)) = self.answers.iter().find(|(question, _)| *question == line) {
                return Ok((*answer).to_owned());
            }
            if let Action::Sysctl { value, .. } = action {
                self.default.clone_from(value);
            }
            self.done.push(line);
            Ok(String::new())
        }

        fn read(&mut self, _: &str) -> Option<String> {
            Some(self.default.clone())
        }
    }

    #[test]
    fn what_is_chosen_is_undone_exactly() {
        let root = std::env::temp_dir().join(format!("anabranch-congestion-{}", std::process::id()));
        let mut fake = Fake {
            answers: vec![
                (
                    "ip -4 route show exact 10.1.0.0/16",
                    "10.1.0.0/16 dev eth0 scope link mtu 1400 congctl reno linkdown\n",
                ),
                ("ip -4 route show exact 1.2.3.4", ""),
                (
                    "ip -4 -o route get 1.2.3.4",
                    "1.2.3.4 via 10.0.0.1 dev eth0 src 10.0.0.2 uid 0 \\    cache \n",
                ),
                ("ip -4 route show exact 10.2.0.0/16", "10.2.0.0/16 dev a\n10.2.0.0/16 dev b metric 5\n"),
            ],
            default: "cubic".to_owned(),
            done: Vec::new(),
        };
        let destinations = ["10.1.0.0/16".to_owned(), "1.2.3.4".to_owned()];
        choose("mp_lia", true, &destinations, &mut fake, &root).unwrap();
        let made = [
            "echo mp_lia > /proc/sys/net/ipv4/tcp_congestion_control",
            "ip -4 route change 10.1.0.0/16 dev eth0 scope link mtu 1400 congctl mp_lia",
            "ip -4 route add 1.2.3.4 via 10.0.0.1 dev eth0 congctl mp_lia",
        ];
        assert_eq!(fake.done, made);
        fake.done.clear();
        assert!(undo_choice("mp_olia", &mut fake, &root).unwrap().is_empty());
        assert_eq!(undo_choice("mp_lia", &mut fake, &root).unwrap().len(), 3);
        let undone = [
            "ip -4 route del 1.2.3.4 via 10.0.0.1 dev eth0",
            "ip -4 route change 10.1.0.0/16 dev eth0 scope link mtu 1400 congctl reno",
            "echo cubic > /proc/sys/net/ipv4/tcp_congestion_control",
        ];
        assert_eq!(fake.done, undone);
        assert!(undo_choice("mp_lia", &mut fake, &root).unwrap().is_empty(), "once");

        // A step that fails undoes those before it.
        fake.done.clear();
        let error = choose("mp_lia", true, &["10.2.0.0/16".to_owned()], &mut fake, &root).unwrap_err();
        assert!(error.to_string().contains("several routes"), "{error}");
        assert_eq!(fake.default, "cubic");
        // A default that another program has changed since is left as it is.
        choose("mp_lia", true, &[], &mut fake, &root).unwrap();
        fake.default = "bbr".to_owned();
        assert_eq!(
            undo_choice("mp_lia", &mut fake, &root).unwrap(),
            ["left alone: the default, which is bbr"]
        );
        assert_eq!(fake.default, "bbr");
        for wrong in ["", "a b", "$(x)"] {
            assert!(matches!(
                choose("x", false, &[wrong.to_owned()], &mut fake, &root),
                Err(SetupError::Usage(_))
            ));
        }
        let _ = fs::remove_dir_all(&root);
    }
}

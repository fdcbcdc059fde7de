//! The command `anabranch tun`. Its effects on a network are tested in `crates/setup/tests/setup`.
#![cfg(all(target_os = "linux", feature = "network"))]

#[path = "../../../tests/skipped.rs"]
mod skipped;
use std::process::{Command, Output};

const BINARY: &str = env!("CARGO_BIN_EXE_anabranch");

fn shell(line: &str) -> Output {
    Command::new("bash").args(["-euc", line]).env("ANABRANCH", BINARY).output().unwrap()
}

/// True if this is root, which alone can become another user.
fn root() -> bool {
    let output = shell("id -u");
    let root = output.stdout == b"0\n";
    if !root {
        skipped::skipped("it needs root, who alone can become somebody else");
    }
    root
}

/// Runs a line as an unprivileged user, for whom `/dev/net/tun` has `mode`; in its own mount and network
/// namespaces, so that the machine is not changed. The binary is in a place that all users can access.
fn nobody(mode: &str, line: &str) -> Output {
    let script = format!(
        "d=$(mktemp -d); trap 'umount /dev/net/tun; rm -r $d' EXIT; chmod 755 $d
         cp $ANABRANCH $d/anabranch; mknod $d/tun c 10 200; chmod {mode} $d/tun; mount --bind $d/tun /dev/net/tun
         ANABRANCH=$d/anabranch setpriv --reuid=65534 --regid=65534 --clear-groups bash -euc '{line}'"
    );
    Command::new("unshare")
        .args(["--mount", "--net", "--propagation", "private", "bash", "-euc", &script])
        .env("ANABRANCH", BINARY)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn anybody_tries_things_out_in_a_namespace_without_a_way_out() {
    if !root() {
        return;
    }
    let output =
        nobody("0666", "$ANABRANCH tun setup --user-namespace -- sh -c \"ip -br addr; ip rule; exit 7\"");
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("anabranch0") && shown.contains("10.86.84.254/24 fd86:8684::fe/64"), "{shown}");
    assert!(!shown.contains("8684:\t"), "no rules are needed where nothing leads out: {shown}");
    assert!(text(&output.stderr).contains("anabranch's addresses are 10.86.84.1, fd86:8684::1, 10.86.84.2"));

    let output = nobody("0600", "$ANABRANCH tun setup --user-namespace -- true");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("chmod 0666 /dev/net/tun"), "{}", text(&output.stderr));
}

#[test]
fn the_command_that_setup_prints_undoes_it() {
    if !root() {
        return;
    }
    let script = "d=$(mktemp -d); trap 'rm -r $d' EXIT; mkdir \"$d/my state\"
        ip link add w type veth peer name v; ip addr add 192.0.2.2/24 dev w; ip link set w up; ip link set v up
        ip route add default via 192.0.2.1 dev w
        anabranch() { $ANABRANCH \"$@\"; }
        undo=$(anabranch tun setup --path w --name t1 --state-dir \"$d/my state\" | sed -n 's/^undo it: //p')
        ip link show t1 > /dev/null; eval \"$undo\"; ! ip link show t1 2> /dev/null";
    let mut command = Command::new("unshare");
    command.args(["--net", "bash", "-euc", script]).env("ANABRANCH", BINARY);
    let output = command.output().unwrap();
    let all = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && all.contains("t1 is removed"), "{all}");
}

#[test]
fn without_the_capability_it_says_so() {
    if !root() {
        return;
    }
    let output = nobody("0666", "$ANABRANCH tun setup --path lo");
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    for word in ["CAP_NET_ADMIN", "sudo", "--dry-run", "--user-namespace"] {
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn mistakes_in_the_options_exit_with_2() {
    for (line, word) in [
        ("setup --path wlan0,gateway=1", "via=GATEWAY"),
        ("setup --path a --prefix 10.0.0.0", "--prefix"),
        ("setup --path a --user nosuchuserhere", "no user"),
        ("setup --path a -4 -6", "--ipv6"),
        ("setup --path a -- true", "--user-namespace"),
        ("setup --dry-run --path a --name a", "its own path"),
        ("setup --dry-run --path a --mtu 1", "MTU"),
    ] {
        let output = Command::new(BINARY).arg("tun").args(line.split(' ')).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(text(&output.stderr).contains(word), "{line}: {}", text(&output.stderr));
    }
}

#[test]
fn a_teardown_of_what_is_not_set_up_says_so() {
    let directory = std::env::temp_dir().join("anabranch-no-such-directory");
    let directory = directory.to_str().unwrap();
    let output = Command::new(BINARY).args(["tun", "teardown", "--state-dir", directory]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("there is no recorded setup of anabranch0"));
    let output = Command::new(BINARY).args(["tun", "show", "--state-dir", directory]).output().unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "nothing is set up in this network namespace.\n");
}

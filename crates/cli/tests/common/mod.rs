//! Scripts in their own network namespace, with two TUN devices between a host of anabranch and the kernel.

#[path = "../../../../tests/skipped.rs"]
mod skipped;
#[allow(unused_imports, reason = "not every test that includes this has tests of its own to leave out")]
pub use skipped::skipped;

use std::process::{Command, Output};

const BINARY: &str = env!("CARGO_BIN_EXE_anabranch");

/// Two paths: the kernel's ends are 10.81.1.1 and 10.81.2.1, anabranch's 10.80.1.5 and 10.80.2.5. A directory
/// `$d` has a file of 8 MiB and a link that leads out of it.
const SETUP: &str = r#"
    ip link set lo up
    sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.mptcp.enabled=1 net.mptcp.blackhole_timeout=0
    for i in 1 2; do
        ip tuntap add dev tun$i mode tun
        ip link set tun$i txqueuelen 10000 up
        ip address add 10.81.$i.1/32 dev tun$i
        ip route add 10.80.$i.5 dev tun$i src 10.81.$i.1
        # The way is chosen by the source, as with two providers.
        ip route add default dev tun$i table 10$i
        ip rule add from 10.81.$i.1 table 10$i
    done
    ip mptcp limits set subflow 8 add_addr_accepted 8
    ip mptcp endpoint add 10.81.2.1 subflow
    HOST="--tun tun1 --tun tun2 --address 10.80.1.5 --address 10.80.2.5@tun2"
    d=$(mktemp -d)
    trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf $d' EXIT
    mkdir $d/www
    head -c 8388608 /dev/urandom >$d/www/file
    echo hello >$d/www/hello.txt
    echo secret >$d/secret
    ln -s ../secret $d/www/link
    until_up() { for i in $(seq 200); do grep -q "$2" $1 2>/dev/null && return; sleep 0.05; done; cat $1; false; }
    same() { test "$(sha256sum <$1)" = "$(sha256sum <$2)"; }
    # `set -e` does not end a script where `! command` fails. A command that ends by a panic or a signal is no refusal.
    fails() { local status=0; "$@" || status=$?; test $status = 1 -o $status = 2; }
"#;

/// Tells the command that ends a script, which `set -e` does not.
const TELL: &str = r#"exec 3>&2; set -E; trap 'echo "failed: $BASH_COMMAND" >&3' ERR"#;

/// Runs `script` after [`SETUP`]. None without root, which is reported.
pub fn live(script: &str) -> Option<String> {
    let id = Command::new("id").arg("-u").output().unwrap();
    let root = id.stdout == b"0\n";
    if !root {
        skipped("tests against the kernel's Multipath TCP need root");
        return None;
    }
    let whole = format!("{TELL}\n{SETUP}\n{script}");
    let output: Output = Command::new("unshare")
        .args(["--net", "--mount", "--propagation", "private", "bash", "-euo", "pipefail", "-c", &whole])
        .env("ANABRANCH", BINARY)
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    Some(out.into_owned())
}

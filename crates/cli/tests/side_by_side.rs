//! The page that compares a simulated flow with a real one: its commands work, and the results agree where
//! they must.
#![cfg(all(target_os = "linux", feature = "network"))]

#[path = "../../../tests/skipped.rs"]
mod skipped;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_anabranch");
const PAGE: &str = include_str!("../../../docs/side-by-side.md");

/// Returns the blocks of the page that begin with this line.
fn blocks(opening: &str) -> Vec<&'static str> {
    let opening = format!("```{opening}\n");
    let parts = PAGE.split(opening.as_str()).skip(1);
    parts.map(|part| part.split("```").next().unwrap()).collect()
}

/// Runs `script` in its own network namespace, with `anabranch` in the search path.
fn run(script: &str, directory: &Path) -> String {
    let bin = Path::new(BINARY).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let output = Command::new("unshare")
        .args(["--net", "bash", "-euo", "pipefail", "-c", script])
        .current_dir(directory)
        .env("PATH", path)
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    out.into_owned()
}

/// A capture, and tshark's view of it.
struct Capture<'a>(&'a Path);

impl Capture<'_> {
    fn fields(&self, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(self.0).args(["-Y", filter, "-T", "fields", "-E", "occurrence=a"]);
        command.args(["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]);
        for field in fields {
            command.args(["-e", field]);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// Returns the handshake of a subflow from this address: the sender, flags, and the kinds, subtypes and
    /// lengths of all options.
    fn handshake(&self, client: &str) -> Vec<Vec<String>> {
        let filter = format!(
            "ip.addr == {client} && tcp.len == 0 && (tcp.flags.syn == 1 || tcp.options.mptcp.subtype <= 1)"
        );
        let fields = [
            "ip.src",
            "ip.dst",
            "tcp.flags.str",
            "tcp.option_kind",
            "tcp.option_len",
            "tcp.options.mptcp.subtype",
            "tcp.options.mptcp.version",
        ];
        self.fields(&filter, &fields)
    }

    fn set(&self, filter: &str, fields: &[&str]) -> BTreeSet<Vec<String>> {
        self.fields(filter, fields).into_iter().collect()
    }
}

/// The fields that determine the form of a DSS.
const FORM: [&str; 6] = [
    "tcp.options.mptcp.dataackpresent.flag",
    "tcp.options.mptcp.dataack8.flag",
    "tcp.options.mptcp.dseqnpresent.flag",
    "tcp.options.mptcp.dseqn8.flag",
    "tcp.options.mptcp.datafin.flag",
    "tcp.option_len",
];

#[test]
fn a_simulated_flow_and_a_real_one_speak_alike() {
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let tshark = Command::new("tshark").arg("--version").output().is_ok();
    if !(root && tshark) {
        skipped::skipped("a simulated flow beside a real one needs root and tshark");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    std::fs::write(at.join("two.toml"), blocks("toml file=two.toml")[0]).unwrap();
    let simulate = blocks("console")[0].lines().next().unwrap().trim_start_matches("$ ");
    let real = blocks("sh").join("\n");
    let shown = run(&format!("{simulate} >/dev/null\n{real}\nwait"), at);
    assert!(shown.lines().count() >= 25, "{shown}");
    let paths = [at.join("simulated.pcapng"), at.join("real.pcapng")];
    let [simulated, real] = [Capture(&paths[0]), Capture(&paths[1])];
    for capture in [&simulated, &real] {
        let bad = "_ws.malformed || _ws.expert.severity >= 0x00800000 || tcp.checksum.status != 1 \
                   || ip.checksum.status != 1";
        let rows = capture.fields(bad, &["frame.number", "_ws.expert.message"]);
        assert!(rows.is_empty(), "{:?}: {rows:?}", capture.0);
        // Keys of eight bytes, from which the receiver's token is derived, to which the join refers.
        let keys = capture.set("tcp.flags.syn == 1 && tcp.flags.ack == 1", &["tcp.options.mptcp.sendkey"]);
        assert!(keys.iter().flatten().any(|key| key.parse::<u64>().is_ok_and(|key| key > 1 << 32)));
        let expected = capture.set("mptcp.expected_token", &["mptcp.expected_token"]);
        let named = capture.set("tcp.options.mptcp.recvtok", &["tcp.options.mptcp.recvtok"]);
        assert!(named.is_subset(&expected) && named.len() == 1, "{named:?} {expected:?}");
        // One connection, of which each path has carried a part.
        assert_eq!(capture.set("tcp.len > 0", &["mptcp.stream"]).len(), 1);
        for client in ["10.0.0.1", "10.0.0.2"] {
            let sent = capture.fields(&format!("ip.src == {client} && tcp.len > 0"), &["tcp.len"]);
            assert!(!sent.is_empty(), "{client} has sent nothing");
        }
        // The end of the stream, once towards the server.
        let fins = capture.fields(
            "ip.dst == 172.16.0.1 && tcp.options.mptcp.datafin.flag == 1",
            &["tcp.options.mptcp.rawdataseqno"],
        );
        assert!(!fins.is_empty(), "no DATA_FIN");
    }
    for client in ["10.0.0.1", "10.0.0.2"] {
        let handshakes = [simulated.handshake(client), real.handshake(client)];
        assert_eq!(handshakes[0].len(), 3, "{:?}", handshakes[0]);
        assert_eq!(handshakes[0], handshakes[1]);
    }
    // The first data repeats the keys, and the following segments have a DSS of the same forms. The last mapping may be one
    // segment or several, as the windows are then.
    let data = "ip.dst == 172.16.0.1 && tcp.len > 0";
    let within = "!(tcp.flags.push == 1) && !(tcp.options.mptcp.datafin.flag == 1)";
    for filter in [format!("{data} && tcp.options.mptcp.subtype == 0"), format!("{data} && {within}")] {
        let forms = [simulated.set(&filter, &FORM), real.set(&filter, &FORM)];
        assert!(!forms[0].is_empty());
        assert_eq!(forms[0], forms[1], "{filter}");
    }
    // In the order of their first occurrence.
    let order = |capture: &Capture<'_>| {
        let mut order: Vec<String> = Vec::new();
        for row in capture.fields("tcp", &["tcp.options.mptcp.subtype"]) {
            for subtype in row[0].split(',').filter(|subtype| !subtype.is_empty()) {
                if !order.iter().any(|known| known == subtype) {
                    order.push(subtype.to_owned());
                }
            }
        }
        order
    };
    assert_eq!(order(&simulated), order(&real));
}

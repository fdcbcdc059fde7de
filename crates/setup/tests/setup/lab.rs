//! A host with two paths to a far host, in their own network namespaces: the tests change nothing on the
//! machine that runs them.
//!
//! ```text
//!                r0 192.0.2.2, 2001:db8:1::2     f0 192.0.2.1, 2001:db8:1::1
//!     TUN -- home ================================================================ far (lo: 203.0.113.9,
//!                r1 198.51.100.2, 2001:db8:2::2  f1 198.51.100.1, 2001:db8:2::1          2001:db8:9::9)
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use anabranch_setup::{Action, Options, RealSystem, System};

/// True if these tests can run; otherwise they count as skipped.
pub fn possible() -> bool {
    let root = rustix::process::geteuid().is_root();
    let tools =
        ["ip", "nft", "python3"].map(|tool| (tool, Command::new(tool).arg("--help").output().is_ok()));
    let missing: Vec<&str> = tools.iter().filter(|(_, there)| !there).map(|(tool, _)| *tool).collect();
    if root && missing.is_empty() {
        return true;
    }
    let why = if root { format!("there is no {}", missing.join(", ")) } else { "not root".to_owned() };
    crate::skipped::skipped(why);
    false
}

/// The two namespaces, which are removed on drop.
pub struct Lab {
    pub home: String,
    pub far: String,
    /// The directory of the state.
    pub state: PathBuf,
}

pub fn shell(line: &str) -> Output {
    Command::new("bash").args(["-euc", line]).output().unwrap()
}

pub fn must(line: &str) -> String {
    let output = shell(line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

impl Lab {
    pub fn new() -> Lab {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("anabr-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let lab = Lab {
            home: format!("{name}-home"),
            far: format!("{name}-far"),
            state: std::env::temp_dir().join(&name),
        };
        must(&format!(
            "ip netns add {home}; ip netns add {far}
             for n in 0 1; do
                 ip -n {home} link add r$n type veth peer name f$n netns {far}
                 ip netns exec {home} sh -c \"echo 1 > /proc/sys/net/ipv4/conf/r$n/rp_filter\"
             done
             ip -n {home} link set lo up; ip -n {far} link set lo up
             ip -n {home} addr add 192.0.2.2/24 dev r0; ip -n {far} addr add 192.0.2.1/24 dev f0
             ip -n {home} addr add 198.51.100.2/24 dev r1; ip -n {far} addr add 198.51.100.1/24 dev f1
             for n in 0 1; do
                 ip -n {home} addr add 2001:db8:$((n+1))::2/64 dev r$n nodad
                 ip -n {far} addr add 2001:db8:$((n+1))::1/64 dev f$n nodad
                 ip -n {home} link set r$n addrgenmode none
                 ip -n {home} link set r$n up; ip -n {far} link set f$n up
             done
             ip -n {far} addr add 203.0.113.9/32 dev lo; ip -n {far} addr add 2001:db8:9::9/128 dev lo nodad
             ip -n {home} route add default via 192.0.2.1 dev r0 metric 100
             ip -n {home} route add default via 198.51.100.1 dev r1 metric 200
             ip -n {home} -6 route add default via 2001:db8:1::1 dev r0 metric 100
             ip -n {home} -6 route add default via 2001:db8:2::1 dev r1 metric 200",
            home = lab.home,
            far = lab.far,
        ));
        lab
    }

    /// Runs a shell line in the namespace `home`.
    pub fn home(&self, line: &str) -> String {
        must(&format!("ip netns exec {} bash -euc '{line}'", self.home))
    }

    /// Runs `f` in a thread in the namespace `home`.
    pub fn at_home<T: Send>(&self, f: impl FnOnce(&mut RealSystem, &Path) -> T + Send) -> T {
        let namespace = std::fs::File::open(format!("/run/netns/{}", self.home)).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                use std::os::fd::AsFd;
                let kind = rustix::thread::LinkNameSpaceType::Network;
                rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind)).unwrap();
                f(&mut RealSystem, &self.state)
            });
            thread.join().unwrap()
        })
    }

    /// Returns everything that a setup could change, as text: links, addresses, routes, rules, nftables,
    /// sysctls.
    pub fn snapshot(&self) -> String {
        self.home(
            "ip -details link show | grep -v -E \"^ +link/\"; ip -br addr; ip -4 rule; ip -6 rule
             ip -4 route show table all; ip -6 route show table all; nft -s list ruleset
             cd /proc/sys/net; grep -r \"\" ipv4 ipv6 netfilter 2>/dev/null |
                 grep -v -E \"nf_conntrack_count|nf_conntrack_buckets|stable_secret|/neigh/\" | LC_ALL=C sort",
        )
    }

    /// Sends pings with the path's address as source into the TUN, as anabranch would. Returns the far host's
    /// interface on which they arrived and their source address there; none if no reply came back to the TUN.
    pub fn ping(&self, device: &str, from: &str, to: &str) -> Option<(String, String)> {
        let capture = format!(
            "ip netns exec {} timeout 20 tcpdump -l -n -i any -c 1 \"(icmp[0] == 8 or ip6[40] == 128) and dst {to}\" \
             2>/dev/null",
            self.far
        );
        let mut sniffer = Command::new("bash")
            .args(["-c", &format!("exec {capture}")])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/setup/tun_ping.py");
        let answer = Command::new("ip")
            .args(["netns", "exec", &self.home, "python3", script.to_str().unwrap(), device, from, to])
            .output()
            .unwrap();
        assert!(answer.stderr.is_empty(), "{}", String::from_utf8_lossy(&answer.stderr));
        if !answer.status.success() {
            sniffer.kill().unwrap();
            sniffer.wait().unwrap();
            return None;
        }
        let line = String::from_utf8(sniffer.wait_with_output().unwrap().stdout).unwrap();
        // 00:00:00.000000 f0    In  IP 192.0.2.2 > 203.0.113.9: ICMP echo request, ...
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((words[1].to_owned(), words[4].to_owned()))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for name in [&self.home, &self.far] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
        let _ = std::fs::remove_dir_all(&self.state);
    }
}

/// Returns options for two paths with both families.
pub fn two_paths() -> Options {
    Options::new(vec!["r0".parse().unwrap(), "r1".parse().unwrap()])
}

/// The real system, except that change number `fail` fails.
pub struct Failing {
    pub fail: usize,
    pub changes: usize,
}

impl System for Failing {
    fn act(&mut self, action: &Action) -> Result<String, String> {
        let reading = matches!(action, Action::Run { argv, .. } if argv.iter().any(|word| word == "show" || word == "list" || word == "address"));
        if !reading {
            self.changes += 1;
            if self.changes == self.fail {
                return Err(format!("`{action}`: made to fail"));
            }
        }
        RealSystem.act(action)
    }

    fn read(&mut self, path: &str) -> Option<String> {
        RealSystem.read(path)
    }
}

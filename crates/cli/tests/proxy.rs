//! `anabranch proxy` as systemd runs it: with sockets that it has passed, and a log of JSON.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

/// A proxy that was started with sockets.
struct Proxy {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    /// Starts it as systemd does: the sockets are the descriptors from 3 on, and the variables have their number and the process.
    fn start(names: &str, sockets: [&TcpListener; 2], options: &[&str]) -> Proxy {
        // The shell keeps its number when it becomes the proxy.
        let script = "export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=$1; shift; exec \"$@\" 3<&0 4<&1 0</dev/null 1>&2";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", names, env!("CARGO_BIN_EXE_anabranch"), "proxy"]).args(options);
        let [first, second] =
            sockets.map(|socket| Stdio::from(std::os::fd::OwnedFd::from(socket.try_clone().unwrap())));
        let mut child = command.stdin(first).stdout(second).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        Proxy { child, log }
    }

    /// Returns the next event with this message; all lines up to it have to be JSON.
    fn event(&mut self, message: &str) -> Value {
        for line in self.log.by_ref() {
            let line = line.unwrap();
            let event: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if event["message"].as_str().is_some_and(|text| text.contains(message)) {
                return event;
            }
        }
        panic!("the log ends without `{message}`");
    }

    fn signal(&self, name: &str) {
        let number = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &number]).status().unwrap().success());
    }
}

/// Sends a word through the proxy to a destination that echoes it.
fn echo_by_socks(proxy: SocketAddr, to: &TcpListener) {
    let mut app = TcpStream::connect(proxy).unwrap();
    app.write_all(&[5, 1, 0]).unwrap();
    app.read_exact(&mut [0; 2]).unwrap();
    let port = to.local_addr().unwrap().port().to_be_bytes();
    app.write_all(&[5, 1, 0, 1, 127, 0, 0, 1, port[0], port[1]]).unwrap();
    app.read_exact(&mut [0; 10]).unwrap();
    app.write_all(b"hello").unwrap();
    let (mut there, _) = to.accept().unwrap();
    let mut word = [0; 5];
    there.read_exact(&mut word).unwrap();
    there.write_all(&word).unwrap();
    drop(there);
    let mut back = Vec::new();
    app.read_to_end(&mut back).unwrap();
    assert_eq!(back, b"hello");
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

#[test]
fn sockets_of_systemd_are_served_and_the_log_is_json_with_destinations_only_if_asked() {
    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("policy.toml");
    std::fs::write(&policy, "").unwrap();
    let policy = policy.to_str().unwrap();
    let there = listener();
    let destination = there.local_addr().unwrap().to_string();
    for asked in [false, true] {
        let (socks, redirected) = (listener(), listener());
        let mut options = vec!["--policy", policy, "--log", "json"];
        options.extend(asked.then_some("--log-destinations"));
        let mut proxy = Proxy::start("anabranch-proxy.socket:redirected", [&socks, &redirected], &options);
        proxy.event(&format!("at {};", socks.local_addr().unwrap()));
        echo_by_socks(socks.local_addr().unwrap(), &there);
        let begun = proxy.event("a connection begins");
        assert_eq!(
            (begun["level"].as_str(), begun["via"].as_str()),
            (Some("INFO"), Some("direct")),
            "{begun}"
        );
        assert_eq!(begun["to"].as_str(), asked.then_some(destination.as_str()), "{begun}");
        let ended = proxy.event("a connection ends");
        assert_eq!(ended["connection"], begun["connection"]);
        assert_eq!(
            (&ended["end"], &ended["up_bytes"], &ended["down_bytes"]),
            (&"finished".into(), &5.into(), &5.into())
        );
        assert_eq!(
            (ended["paths"].as_str(), ended["mptcp"].as_bool()),
            (Some("127.0.0.1"), Some(false)),
            "{ended}"
        );
        assert!(asked || !ended.to_string().contains(&destination), "{ended}");
        // A connection to the port for redirected ones that nothing has redirected.
        drop(TcpStream::connect(redirected.local_addr().unwrap()).unwrap());
        let refused = proxy.event("no connection");
        assert_eq!(
            (refused["level"].as_str(), refused["reason"].as_str()),
            (Some("WARN"), Some("request")),
            "{refused}"
        );
        proxy.signal("-HUP");
        proxy.event("the policy was read again");
        proxy.signal("-TERM");
        assert!(proxy.child.wait().unwrap().success());
        // All of the rest is JSON too.
        for line in proxy.log.by_ref() {
            serde_json::from_str::<Value>(&line.unwrap()).unwrap();
        }
    }
}

#[test]
fn only_redirected_connections_are_announced_if_systemd_passes_no_other_socket() {
    let (first, second) = (listener(), listener());
    let mut proxy = Proxy::start("redirected:redirected", [&first, &second], &["--log", "json"]);
    let [first, second] = [first, second].map(|listener| listener.local_addr().unwrap());
    proxy.event(&format!("proxy for redirected connections at {first} and {second};"));
}

#[test]
fn a_server_side_warns_of_each_passed_socket_that_has_one_path() {
    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("server.toml");
    let output =
        Command::new(env!("CARGO_BIN_EXE_anabranch")).args(["proxy", "--new-key", "laptop"]).output();
    std::fs::write(&policy, output.unwrap().stdout).unwrap();
    let options = ["--server", "--policy", policy.to_str().unwrap(), "--log", "json"];
    let (first, second) = (listener(), listener());
    let mut proxy = Proxy::start("first:second", [&first, &second], &options);
    for name in ["first", "second"] {
        let warning = proxy.event(&format!("the socket `{name}` of systemd is plain TCP"));
        assert!(warning.to_string().contains("SocketProtocol=mptcp"), "{warning}");
    }
    let ports = [first, second].map(|listener| listener.local_addr().unwrap().port());
    proxy.event(&format!("server side of the proxy at port {} and {}", ports[0], ports[1]));
}

#[test]
fn sockets_that_the_proxy_cannot_serve_are_refused_with_a_remedy() {
    let (socks, other) = (listener(), listener());
    let connected = TcpStream::connect(socks.local_addr().unwrap()).unwrap();
    let connected = TcpListener::from(std::os::fd::OwnedFd::from(connected));
    for (sockets, options, words) in [
        ([&socks, &connected], &[][..], "does not listen"),
        ([&socks, &other], &["--listen", "127.0.0.1:0"], "leave out --listen"),
        ([&socks, &other], &["--log", "json", "--listen", "127.0.0.1:0"], "leave out --listen"),
    ] {
        let mut proxy = Proxy::start("a:b", sockets, options);
        assert_eq!(proxy.child.wait().unwrap().code(), Some(2));
        let lines: Vec<String> = proxy.log.by_ref().map(Result::unwrap).collect();
        assert!(lines.last().is_some_and(|line| line.contains(words)), "{lines:?}");
        let json = serde_json::from_str::<Value>(lines.last().unwrap());
        assert_eq!(json.is_ok_and(|json| json["level"] == "ERROR"), options.contains(&"json"), "{lines:?}");
    }
    // As many would take gigabytes; and one that is not there.
    for (count, words) in [("2000000000", "64 are the most"), ("1", "is of no use")] {
        let script = "export LISTEN_PID=$$ LISTEN_FDS=$1; exec \"$0\" proxy 3<&-";
        let output =
            Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_anabranch"), count]).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(words), "{text}");
    }
}

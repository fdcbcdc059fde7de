//! `anabranch serve` and misbehaving clients, `get` and `bench` without an answer, and the remains of a
//! killed process.
#![cfg(all(target_os = "linux", feature = "network"))]

mod common;

use common::live;

/// A client that ends its direction after the request, as `nc -N` does: over TCP, and over Multipath TCP.
const HALF_CLOSED: &str = r#"
import socket, sys
for protocol in [0, 262]:
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    s.settimeout(20)
    s.connect(("10.80.1.5", 80))
    s.sendall(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n")
    s.shutdown(socket.SHUT_WR)
    got = b""
    while piece := s.recv(1 << 20):
        got += piece
    assert got.split(b"\r\n\r\n", 1)[1] == open(sys.argv[1], "rb").read(), (protocol, len(got))
"#;

/// Two hundred clients that request a large file, and read nothing until standard input ends.
const SLOW: &str = r#"
import socket, sys
held = []
for _ in range(200):
    s = socket.socket()
    s.bind(("10.81.1.1", 0))
    s.connect(("10.80.1.5", 80))
    s.sendall(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
    held.append(s)
print("holding", flush=True)
sys.stdin.read()
"#;

#[test]
fn serve_opens_regular_files_alone_and_answers_who_sends_nothing_more() {
    let script = r#"
        mkfifo $d/www/fifo
        $ANABRANCH serve $HOST $d/www 2>$d/log &
        until_up $d/log serving
        test "$(curl -s -m 10 -o /dev/null -w '%{http_code}' http://10.80.1.5/fifo)" = 404
        python3 -c "$CLIENT" $d/www/file
    "#;
    live(&format!("CLIENT='{HALF_CLOSED}'\n{script}"));
}

#[test]
fn serve_keeps_memory_and_files_for_others_while_clients_do_not_read() {
    let script = r#"
        truncate -s 100M $d/www/big
        (
            ulimit -Sn 64
            exec $ANABRANCH serve $HOST --memory 16MiB --send-timeout 6s $d/www 2>$d/log
        ) &
        server=$!
        until_up $d/log serving
        mkfifo $d/stop
        python3 -c "$CLIENT" <$d/stop >$d/out &
        exec 7>$d/stop
        until_up $d/out holding
        # All of them fetch one file, which takes one descriptor.
        test $(ls /proc/$server/fd | wc -l) -lt 64
        test "$(awk '/Max open files/ { print ($4 == $5) }' /proc/$server/limits)" = 1
        for source in 10.81.1.1 10.81.2.1; do
            curl -sS -m 60 --interface $source -o $d/got http://10.80.1.5/file
            same $d/got $d/www/file
        done
        for i in $(seq 600); do test $(grep -c "aborted here" $d/log) -ge 200 && break; sleep 0.1; done
        test $(grep -c "aborted here" $d/log) = 200
        exec 7>&-
    "#;
    live(&format!("CLIENT='{SLOW}'\n{script}"));
}

#[test]
fn serve_is_not_held_up_by_a_log_that_nobody_reads() {
    live(
        r#"
        mkfifo $d/log
        exec 7<>$d/log
        $ANABRANCH serve $HOST --pcap $d/capture.pcapng $d/www 2>$d/log &
        server=$!
        until curl -s -m 1 -o /dev/null http://10.80.1.5/hello.txt; do sleep 0.1; done
        # Each is a connection and four lines: more than a pipe holds.
        for i in $(seq 30); do echo "url=http://10.80.1.5/hello.txt"; echo "output=/dev/null"; done >$d/urls
        for i in $(seq 20); do
            curl -sS -m 60 -H 'Connection: close' -K $d/urls
        done
        curl -sS -m 60 -o $d/got http://10.80.1.5/file
        same $d/got $d/www/file
        # It ends, too, and nobody reads that there is a capture.
        kill $server
        wait $server
        test -s $d/capture.pcapng
        "#,
    );
}

#[test]
fn serve_get_and_bench_name_the_address_that_cannot_be_reached() {
    live(
        r#"
        # The log of the server before may still be there at first.
        $ANABRANCH serve --tun tun1 --address 10.99.0.1 $d/www 2>$d/log &
        until_up $d/log serving
        until_up $d/log "^warning: there is no route to 10.99.0.1, .*ip route add 10.99.0.1 dev tun1"
        kill %%; wait %% || true
        $ANABRANCH serve --tun tun2 --address 10.80.1.5 $d/www 2>$d/log &
        until_up $d/log serving
        until_up $d/log "^warning: the route to 10.80.1.5 leads to tun1 and not to tun2"
        kill %%; wait %% || true
        $ANABRANCH serve --tun tun1 --address 10.81.1.1 $d/www 2>$d/log &
        until_up $d/log serving
        until_up $d/log "^warning: 10.81.1.1 is an address of this machine's kernel"
        kill %%; wait %% || true
        fails $ANABRANCH get http://10.98.0.1/file $HOST --retries 0 --connect-timeout 2s -o $d/got 2>$d/error
        grep -q "^connecting to 10.98.0.1:80" $d/error
        grep -q "^error: cannot connect to 10.98.0.1:80: it has not answered within 2 s" $d/error || { cat $d/error; false; }
        # Nobody is behind the device.
        for options in "--kernel tcp" "--kernel mptcp" "--tun tun2 --address 10.80.2.5"; do
            fails $ANABRANCH bench --client 10.80.1.5 $options --connect-timeout 1s 2>$d/error
            grep -q "^error: cannot connect to 10.80.1.5.*has not answered within 1 s" $d/error || { cat $d/error; false; }
        done
        "#,
    );
}

#[test]
fn serve_removes_what_a_killed_process_has_left() {
    live(
        r#"
        partial() { ls -A $d | grep -c '^[.]anabranch-.*[.]partial$' || true; }
        $ANABRANCH serve $HOST --pcap $d/capture.pcapng $d/www 2>$d/log &
        until_up $d/log serving
        test $(partial) = 1
        kill -9 %%; wait %% || true
        test $(partial) = 1
        $ANABRANCH serve --tun tun1 --address 10.80.1.5 --pcap $d/capture.pcapng $d/www 2>$d/log &
        first=$!
        until_up $d/log serving
        test $(partial) = 1
        # That of a live process stays.
        $ANABRANCH serve --tun tun2 --address 10.80.2.5 --pcap $d/other.pcapng $d/www 2>$d/log2 &
        second=$!
        until_up $d/log2 serving
        test $(partial) = 2
        kill -INT $first $second
        wait $first $second
        test $(partial) = 0
        test -s $d/capture.pcapng
        "#,
    );
}

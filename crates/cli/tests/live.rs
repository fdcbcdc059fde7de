//! `anabranch serve`, `get` and `bench` with the Multipath TCP of this machine's kernel, over two TUN devices
//! in their own network namespace. The machine is not changed.
#![cfg(all(target_os = "linux", feature = "network"))]

mod common;

use std::process::Command;

use common::{live, skipped};

/// True if tshark is installed, which CI requires.
fn have_tshark() -> bool {
    let found = Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skipped("there is no tshark (Debian: apt install tshark), so no capture is read");
    }
    found
}

#[test]
fn the_kernel_fetches_a_file_over_two_paths() {
    // As in the README, and with a scheduler that uses both paths: nothing slows them down, and one of them
    // could carry everything.
    for (options, shares) in [("", false), ("--scheduler round_robin", true)] {
        let script = r#"
        $ANABRANCH serve OPTIONS $HOST $d/www 2>$d/log &
        until_up $d/log serving
        # The file would be over before the second path is there.
        mptcpize run wget -q --wait=1 -O $d/got http://10.80.1.5/hello.txt http://10.80.1.5/file
        cat $d/www/hello.txt $d/www/file >$d/both
        same $d/got $d/both
        # Once the connection's end is in the log.
        until_up $d/log "done after"
        cat $d/log
        nstat -asz MPTcpExt* | awk '{ print $1, $2 }'
        "#;
        let Some(out) = live(&script.replace("OPTIONS", options)) else { return };
        assert_fetched(&out, shares);
    }
}

/// Asserts one connection over two subflows, without errors; if it `shares`, each path has carried something.
fn assert_fetched(out: &str, shares: bool) {
    let counter = |name: &str| -> u64 {
        let line = out.lines().find_map(|line| line.strip_prefix(&format!("MPTcpExt{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {out}")).parse().unwrap()
    };
    assert_eq!(counter("MPCapableSYNACKRX"), 1);
    assert!(counter("MPJoinSynAckRx") >= 1, "{out}");
    for none in [
        "MPCapableFallbackSYNACK",
        "DSSNotMatching",
        "DSSNoMatchTCP",
        "DataCsumErr",
        "MPJoinSynAckHMacFailure",
    ] {
        assert_eq!(counter(none), 0, "{none}");
    }
    for path in ["10.81.1.1", "10.81.2.1"].iter().filter(|_| shares) {
        let lines = out.lines().filter(|line| line.contains("sent") && line.contains(&format!("- {path}:")));
        let carried = lines.filter(|line| !line.contains("sent 0 B")).count();
        assert!(carried > 0, "nothing went to {path}:\n{out}");
    }
}

#[test]
fn all_pairs_of_addresses_are_joined_where_the_kernel_lets_answers_come_by_another_device() {
    live(
        r#"
        ip mptcp endpoint flush
        for i in 1 2; do
            ip mptcp endpoint add 10.81.$i.1 subflow fullmesh
            # Loose: any device will do.
            sysctl -qw net.ipv4.conf.tun$i.rp_filter=2
        done
        $ANABRANCH serve $HOST $d/www 2>$d/log &
        until_up $d/log serving
        cat >$d/client <<'END'
            exec 3<>/dev/tcp/10.80.1.5/80
            printf 'GET /hello.txt HTTP/1.0\r\n' >&3
            for i in $(seq 200); do test $(grep -c 'subflow . up' $1) = 4 && break; sleep 0.05; done
            printf '\r\n' >&3
            tail -n 1 <&3
END
        test "$(mptcpize run bash $d/client $d/log)" = hello
        cat $d/log
        test $(grep -c 'subflow . up' $d/log) = 4
        for here in 1 2; do
            for there in 1 2; do grep -q "up: 10.80.$here.5:80 - 10.81.$there.1:" $d/log; done
        done
        "#,
    );
}

#[test]
fn http_is_answered_as_it_should_be() {
    let Some(out) = live(
        r#"
        $ANABRANCH serve $HOST --quiet --port 8080 $d/www 2>$d/log &
        until_up $d/log serving
        at() { curl -s --path-as-is -o $d/body -w '%{http_code} %{size_download} %{content_type}\n' "$@"; }
        U=http://10.80.1.5:8080
        at $U/hello.txt
        at -r 1-3 $U/hello.txt; cat $d/body; echo
        at -r 100- $U/hello.txt
        at -I $U/file
        at $U/none
        at $U/link
        at $U/../secret
        at $U/%2e%2e/secret
        at $U/%68ello.txt
        at -X POST $U/hello.txt
        at $U/
        grep -c hello.txt $d/body
        "#,
    ) else {
        return;
    };
    let expected = [
        "200 6 text/plain",
        "206 3 text/plain",
        "ell",
        "416 26 text/plain",
        "200 0 application/octet-stream",
        "404 22 ",
        "404 22 ",
        "404 22 ",
        "404 22 ",
        "200 6 text/plain",
        "405 32 ",
        "200 ",
        "1",
    ];
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{out}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected.trim_end()), "`{line}` is not `{expected}`:\n{out}");
    }
}

#[test]
fn get_fetches_from_the_kernel_and_leaves_nothing_half_done() {
    live(
        r#"
        cd $d/www
        mptcpize run python3 -m http.server 8000 --bind 10.81.1.1 >/dev/null 2>$d/log &
        until curl -s -o /dev/null http://10.81.1.1:8000/; do sleep 0.05; done
        cd $d
        $ANABRANCH get http://10.81.1.1:8000/file $HOST -o got --json >report
        same got www/file
        python3 - <<'END'
import json
report = json.load(open("report"))
assert report["received_bytes"] == 8388608, report
# The header comes too.
assert 8388608 < sum(s["received_bytes"] for s in report["subflows"]) < 8389608, report
assert len(report["subflows"]) >= 2, report
END
        # A device is written to, and stays; by a link of its own, so that a mistake costs no more than that.
        ln -s /dev/null null
        $ANABRANCH get http://10.81.1.1:8000/file $HOST -o null --json >report
        test -h null -a -c null
        rm null
        # What fails leaves no file, neither whole nor in part.
        fails $ANABRANCH get http://10.81.1.1:8000/none $HOST 2>error
        grep -q 404 error
        fails $ANABRANCH get http://10.81.1.1:8001/none $HOST 2>error
        grep -q refused error
        test "$(ls)" = "$(printf '%s\n' error got log report secret www)"
        "#,
    );
}

#[test]
fn a_connection_that_is_plain_tcp_is_reported_with_the_cause() {
    live(
        r#"
        cd $d/www
        python3 -m http.server 8000 --bind 10.81.1.1 >/dev/null 2>$d/log &
        mptcpize run python3 -m http.server 8001 --bind 10.81.1.1 >/dev/null 2>$d/log &
        for port in 8000 8001; do
            until curl -s -o /dev/null http://10.81.1.1:$port/; do sleep 0.05; done
        done
        cd $d
        $ANABRANCH get http://10.81.1.1:8000/file $HOST -o got 2>told
        grep -q "^warning: the connection is plain TCP: the server's SYN/ACK had no Multipath TCP option" told
        $ANABRANCH get http://10.81.1.1:8000/file $HOST -o got --json --quiet >plain 2>told
        test $(wc -l <told) = 1
        $ANABRANCH get http://10.81.1.1:8001/file $HOST -o got --json >multipath 2>told
        test ! -s told
        $ANABRANCH bench --server --kernel tcp 2>waiting &
        until_up waiting waiting
        $ANABRANCH bench --client 10.81.1.1 $HOST --size 100KB --parallel 2 --json >bench 2>told
        grep -q "^warning: 2 of 2 connections are plain TCP: the server's SYN/ACK" told
        $ANABRANCH bench --client 10.81.1.1 --kernel mptcp --size 100KB --json >kernel 2>told
        grep -q "^warning: the connection is plain TCP: reported by the kernel" told
        python3 - <<'END'
import json
cases = {"plain": [0], "multipath": [], "bench": [0, 1], "kernel": [0]}
for name, connections in cases.items():
    fallbacks = json.load(open(name))["fallbacks"]
    assert [fallback["connection"] for fallback in fallbacks] == connections, (name, fallbacks)
    assert all(fallback["when"] == "handshake" and fallback["why"] for fallback in fallbacks), (name, fallbacks)
END
        $ANABRANCH serve $HOST www 2>serving &
        until_up serving serving
        curl -s -o got http://10.80.1.5/hello.txt
        until_up serving "open from .*, plain TCP: the client's SYN, or its next ACK, had no Multipath TCP option"
        mptcpize run curl -s -o got http://10.80.1.5/hello.txt
        until_up serving "[#]2 .*open from [^,]*$"
        "#,
    );
}

#[test]
fn bench_measures_against_the_kernel_in_both_directions() {
    live(
        r#"
        $ANABRANCH bench --server $HOST 2>$d/log &
        until_up $d/log waiting
        for protocol in mptcp tcp; do
            for options in "" --reverse --bidirectional; do
                $ANABRANCH bench --client 10.80.1.5 --kernel $protocol --size 3MB --parallel 2 $options --json >$d/report
                python3 - $d/report "$options" <<'END'
import json, sys
report, options = json.load(open(sys.argv[1])), sys.argv[2]
assert report["uploaded_bytes"] == (0 if options == "--reverse" else 6_000_000), report
assert report["downloaded_bytes"] == (6_000_000 if options else 0), report
END
            done
        done
        $ANABRANCH bench --client 10.80.1.5 --kernel mptcp --ping 50 | grep -q "round trip of one byte"
        # The kernel joins only while its own direction is open.
        joined() { nstat -asz MPTcpExtMPJoinSynAckRx | awk '/MPJoin/ { print $2 }'; }
        before=$(joined)
        $ANABRANCH bench --client 10.80.1.5 --kernel mptcp --reverse --time 1s >/dev/null
        test $(joined) -gt $before
        "#,
    );
}

#[test]
fn a_capture_of_a_live_host_is_whole_and_tshark_finds_nothing_wrong_with_it() {
    if !have_tshark() {
        return;
    }
    live(
        r#"
        # The file is noise, in which tshark would now and then see some protocol.
        read_with() {
            tshark -r $d/capture.pcapng -d tcp.port==80,data -o tcp.check_checksum:TRUE -o ip.check_checksum:TRUE "$@"
        }
        # Linux writes 0xffff for a TCP checksum of 0 when no device computes it (skb_checksum_help).
        bad='_ws.malformed || ip.checksum.status == 0 || (_ws.expert.severity >= 8388608 && !(tcp.checksum == 0xffff))
            || (tcp.checksum.status == 0 && !(tcp.checksum == 0xffff))'
        for offload in "" --no-offload; do
            $ANABRANCH serve $HOST $offload --pcap $d/capture.pcapng $d/www 2>$d/log &
            server=$!
            until_up $d/log serving
            mptcpize run wget -q -O $d/got http://10.80.1.5/file
            same $d/got $d/www/file
            ping -q -c 2 -i 0.01 10.80.1.5 >/dev/null
            ping -q -c 2 -i 0.01 10.80.2.5 >/dev/null
            # It has no name before it is whole.
            test ! -e $d/capture.pcapng
            kill -INT $server
            wait $server
            grep -q "captured $d/capture.pcapng" $d/log
            fails grep warning $d/log
            read_with -Y "$bad" >$d/found
            test ! -s $d/found
            test "$(read_with -T fields -e frame.interface_name | sort -u | xargs)" = "tun1 tun2"
            # Every byte of the file by its data sequence number, sent for a reason.
            read_with -Y 'ip.src == 10.80.0.0/16 && tcp.len > 0' -T fields -e frame.comment >$d/comments
            fails grep -vE '^(new data: |reinjected|retransmission|probe)' $d/comments
            grep -qE '^new data: (the only subflow|lowest RTT, .*); stream [0-9]+[.][.][0-9]+$' $d/comments
            test $(read_with -Y 'icmp.type == 0' | wc -l) = 4
            # Times are those of the wall.
            read_with -c 1 -T fields -e frame.time_epoch | awk -v now=$(date +%s) '{ exit !(now - $1 < 600 && $1 <= now + 1) }'
            rm $d/capture.pcapng
        done
        $ANABRANCH serve $HOST --pcap $d/capture.pcapng --pcap-snaplen 100 $d/www 2>$d/log &
        until_up $d/log serving
        wget -q -O $d/got http://10.80.1.5/hello.txt
        kill %%
        wait %%
        read_with -Y "$bad" >$d/found
        test ! -s $d/found
        test $(read_with -Y 'frame.cap_len > 100' | wc -l) = 0
        "#,
    );
}

#[test]
fn a_capture_that_cannot_be_written_is_told_and_ends_no_transfer() {
    live(
        r#"
        cd $d/www
        python3 -m http.server 8000 --bind 10.81.1.1 >/dev/null 2>$d/log &
        until curl -s -o /dev/null http://10.81.1.1:8000/; do sleep 0.05; done
        cd $d
        mkdir small
        mount -t tmpfs -o size=1m none small
        status=0
        $ANABRANCH get http://10.81.1.1:8000/file $HOST -o got --pcap small/capture 2>error || status=$?
        test $status = 1
        same got www/file
        grep -q "^warning: cannot write the capture small/capture: No space left.*continuing without it" error
        grep -q "^error: cannot write the capture small/capture: No space left" error
        test -z "$(ls -A small)"
        status=0
        $ANABRANCH get http://10.81.1.1:8000/hello.txt $HOST --pcap no/such 2>error || status=$?
        test $status = 2
        grep -q "^error: cannot write the capture no/such: " error
        status=0
        $ANABRANCH bench --client 10.81.1.1 --kernel tcp --pcap capture 2>error || status=$?
        test $status = 2
        grep -q tcpdump error
        # What has failed leaves its packets.
        fails $ANABRANCH get http://10.81.1.1:8001/none $HOST --pcap refused 2>error
        test -s refused
        umount small
        "#,
    );
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    live(
        r#"
        fails $ANABRANCH serve --tun tun9 --address 10.80.1.5 $d/www 2>$d/error
        grep -q "there is no interface .tun9.; make it" $d/error
        fails $ANABRANCH serve --tun lo --address 10.80.1.5 $d/www 2>$d/error
        grep -q "not a TUN device" $d/error
        fails $ANABRANCH serve $d/www 2>$d/error
        grep -q -- "--tun NAME --address IP" $d/error
        ip link set tun1 down
        fails $ANABRANCH serve --tun tun1 --address 10.80.1.5 $d/www 2>$d/error
        grep -q "ip link set tun1 up" $d/error
        ip link set tun1 up
        $ANABRANCH serve --tun tun1 --address 10.80.1.5 $d/www 2>$d/log &
        until_up $d/log serving
        fails $ANABRANCH serve --tun tun1 --address 10.80.1.5 $d/www 2>$d/error
        grep -q "another process uses" $d/error
        cp $ANABRANCH $d/anabranch
        chmod 755 $d $d/anabranch
        # Some kernels let any user have a device without an owner.
        ip tuntap del dev tun2 mode tun
        ip tuntap add dev tun2 mode tun user 0
        fails setpriv --reuid=65534 --regid=65534 --clear-groups $d/anabranch serve --tun tun2 --address 10.80.2.5 $d/www 2>$d/error
        grep -q CAP_NET_ADMIN $d/error || grep -q "cannot open /dev/net/tun" $d/error
        "#,
    );
}

#[test]
fn the_connections_of_a_program_are_recorded_and_shown() {
    live(
        r#"
        cd $d/www
        python3 -m http.server 8000 --bind 10.81.1.1 >/dev/null 2>$d/log &
        until curl -s -o /dev/null http://10.81.1.1:8000/; do sleep 0.05; done
        cd $d
        status=0
        $ANABRANCH record --every 1ms --keep capture -o page -- sh -c \
            'curl -s --limit-rate 20M -o got http://10.81.1.1:8000/file && exit 3' 2>error || status=$?
        test $status = 3
        same got www/file
        grep -q "^1 connection in .*: 1 of TCP" page
        $ANABRANCH inspect capture -o again
        # The kernel's table is a part of the first page only.
        tail -n +2 page | sed '/^kernel /,/^[* ]/{/^[* ]/!d}' | grep -v "of its time of sending" >one
        tail -n +2 again >other
        same one other
        # The kernel's values of the server, which is on this host too; a capture has none.
        grep -q "^kernel .* control .* window KB" page
        fails grep -q "^kernel " again
        control=$(sysctl -n net.ipv4.tcp_congestion_control)
        # The median is of the time of sending, which may be shorter than two samples; the maximum is of all.
        grep -Eq "^10.81.1.1:[0-9]+ +<- 10.81.1.1:8000 +$control +([0-9]+|-) +[0-9]" page
        # A capture that is not kept is drawn too.
        # At a limited rate acknowledgements wait behind the data, so bytes are in flight at most samples.
        tc qdisc add dev lo root tbf rate 200mbit burst 100kb limit 4mb
        $ANABRANCH record --every 1ms --record drawn --record-format csv --xpl -- curl -s -o got http://10.81.1.1:8000/file 2>error >page
        tc qdisc del dev lo root
        grep -q "^recorded in drawn" error
        grep -q '"complete": true' drawn/run.json
        grep -q ",received," drawn/capture/events.csv
        test -s drawn/capture/flow-1.down.xpl
        # The congestion window of the server, and bytes in flight from its packets.
        grep -Eq "^[0-9]+,0,down,0,[1-9][0-9]*,[0-9]*,[1-9][0-9]*,[1-9]" drawn/capture/windows.csv
        $ANABRANCH plot drawn --figure sequence -o sequence.svg
        # A directory with files is refused before the program runs, and a copy that is not whole is not drawn.
        fails $ANABRANCH record --record drawn -- touch ran 2>error
        grep -q "it is not empty" error
        test ! -e ran
        mkdir little && mount -t tmpfs -o size=4k none little
        status=0
        TMPDIR=$d/little $ANABRANCH record --record half -- curl -s -o got http://10.81.1.1:8000/file 2>error || status=$?
        umount little
        test $status = 1
        grep -q "^error: cannot write.*No space left" error
        test ! -e half/run.json
        # Without a connection there is a word, and no page.
        $ANABRANCH record -o none -- true 2>error
        grep -q "^warning: no TCP connection began" error
        test ! -s none
        status=0
        $ANABRANCH record --keep /dev/full -- curl -s -o got http://10.81.1.1:8000/file 2>error || status=$?
        test $status = 1
        grep -q "^error: cannot write.*No space left" error
        status=0
        $ANABRANCH record -- no-such-program 2>error || status=$?
        test $status = 2
        grep -q "cannot run no-such-program" error
        "#,
    );
}

#[test]
fn processes_share_a_device_and_a_path_follows_its_interface() {
    let Some(out) = live(
        r#"
        for n in 0 1; do
            ip link add r$n type veth peer name f$n; ip link set r$n up; ip link set f$n up
            ip addr add 10.9.$n.2/24 dev r$n
            ip route add default via 10.9.$n.1 dev r$n metric $((100 + n))
        done
        state="--state-dir $d/state"
        $ANABRANCH tun setup -4 --path r0 --path r1 --hosts 2 $state >/dev/null
        $ANABRANCH tun share --socket $d/socket --user nobody $state 2>$d/share &
        until_up $d/share "is shared by up to 2 processes"
        test "$(stat -c '%a %U' $d/socket)" = "600 nobody"
        for host in 1 2; do
            $ANABRANCH serve --tun $d/socket --port 8080 $d/www 2>$d/log$host &
            test $host = 2 || first=$!
            until_up $d/log$host "10.86.84.$((2 * host))"
        done
        cat $d/log1 $d/log2 | grep addresses
        fails $ANABRANCH serve --tun $d/socket $d/www 2>$d/refused
        grep 'all 2 hosts of anabranch0 are taken' $d/refused
        for at in 1 4; do
            curl -s -o $d/got http://10.86.84.$at:8080/file && same $d/got $d/www/file
        done
        # A process that is killed gives its host back.
        kill -9 $first; wait $first || true
        until_up $d/share "has given back 10.86.84.1, 10.86.84.2"
        $ANABRANCH serve --tun $d/socket --port 8080 $d/www 2>$d/log3 &
        until_up $d/log3 "10.86.84.2"
        curl -s -o $d/got http://10.86.84.2:8080/file && same $d/got $d/www/file
        # Both hosts notice that a path is lost; its routes come back with the interface, and it with them.
        mkdir $d/bin
        printf '#!/bin/sh\nrm %s 2>/dev/null && exit 9\nexec %s "$@"\n' $d/fail $(command -v ip) >$d/bin/ip
        chmod +x $d/bin/ip
        PATH=$d/bin:$PATH $ANABRANCH tun follow $state 2>$d/follow &
        follow=$!
        until_up $d/follow "follow their interfaces"
        # The system cannot be read once, as while an interface vanishes.
        touch $d/fail; ip addr add 10.9.7.7/32 dev lo
        until_up $d/follow "looked at again in a second"
        ip link set r0 down
        until_up $d/log2 "path 10.86.84.3 is lost"
        until_up $d/log3 "path 10.86.84.1 is lost"
        ip link set r0 up; ip route add default via 10.9.0.1 dev r0 metric 100
        until_up $d/log2 "path 10.86.84.3 is back"
        until_up $d/log3 "path 10.86.84.1 is back"
        until_up $d/follow "made: route default through r0"
        grep made $d/follow
        # After a teardown there is nothing to follow.
        $ANABRANCH tun teardown $state >/dev/null
        status=0; wait $follow || status=$?
        test $status = 1
        grep -q "is not set up" $d/follow
        "#,
    ) else {
        return;
    };
    let lines: Vec<&str> = out.lines().collect();
    for line in [
        "the addresses of this host are 10.86.84.1, 10.86.84.2",
        "the addresses of this host are 10.86.84.3, 10.86.84.4",
        "made: route default through r0 in table 86841",
    ] {
        assert!(lines.contains(&line), "{line}: {out}");
    }
}

#[test]
fn the_threads_of_a_proxy_have_a_queue_each_or_read_the_only_one_in_turn() {
    let Some(out) = live(
        r#"
        sysctl -qw net.ipv4.ip_forward=1
        (umask 077; $ANABRANCH proxy --new-key test >$d/key; { echo "allow = '127.0.0.0/8'"; cat $d/key; } >$d/policy)
        cd $d/www
        python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 &
        until curl -s -o /dev/null http://127.0.0.1:8000/; do sleep 0.05; done
        for kind in multi_queue one_queue; do
            for n in 6 7; do
                ip tuntap add dev p$n mode tun $kind
                ip link set p$n txqueuelen 10000 up
                ip address add 10.86.$n.254/24 dev p$n
            done
            common="proxy --transport anabranch --threads 2 --scheduler round_robin"
            $ANABRANCH $common --server --policy $d/policy --tun p6 --address 10.86.6.1 --status $d/far 2>$d/log6 &
            sides=$!
            until_up $d/log6 "server side"
            $ANABRANCH $common --to 10.86.6.1:8803 --key $d/key --tun p7 --address 10.86.7.1 --address 10.86.7.2 \
                --listen 127.0.0.1:1080 --status $d/near 2>$d/log7 &
            sides="$sides $!"
            until_up $d/log7 "proxy for"
            downloads=
            for at in $(seq 6); do
                curl -s -o $d/got$at --proxy socks5h://127.0.0.1:1080 http://127.0.0.1:8000/file &
                downloads="$downloads $!"
            done
            wait $downloads
            for at in $(seq 6); do cmp $d/got$at $d/www/file; done
            for side in near far; do
                curl -s --unix-socket $d/$side http://proxy/metrics | sed -n "s/^anabranch_proxy_/$kind $side /p"
            done
            echo "$kind queues $(ip -d link show p6 | grep -o 'numqueues [0-9]*' || true)"
            echo "$kind notes $(cat $d/log6 $d/log7 | grep -c 'in turn, as it has one queue' || true)"
            # The kernel would let another process have a queue too, and a part of the packets.
            fails $ANABRANCH serve --tun p6 --address 10.86.6.9 $d/www 2>$d/refused
            grep -q "another process uses .p6." $d/refused
            kill $sides; wait $sides
            ip tuntap del dev p6 mode tun $kind; ip tuntap del dev p7 mode tun $kind
        done
        "#,
    ) else {
        return;
    };
    for line in [
        "multi_queue queues numqueues 2",
        "multi_queue notes 0",
        "one_queue queues ",
        "one_queue notes 2",
        "multi_queue far connections_total{via=\"server\"} 6",
        "one_queue far connections_total{via=\"server\"} 6",
    ] {
        assert!(out.lines().any(|one| one == line), "{line}: {out}");
    }
    let value = |name: &str| -> f64 {
        let line = out.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {out}")).parse().unwrap()
    };
    for kind in ["multi_queue", "one_queue"] {
        assert!(
            value(&format!("{kind} near path_received_bytes_total{{path=\"10.86.7.2\"}}")) > 0.0,
            "{out}"
        );
    }
    // Every packet of about half the connections, and in the first case a few of each.
    let (few, many) =
        (value("multi_queue near stack_handovers_total"), value("one_queue near stack_handovers_total"));
    assert!(few < many / 2.0, "{out}");
}

//! Configures the devices, addresses, routes and limits of a cell in this network namespace.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cell::{Cell, Checksums, Family, Joins, Side, Situation};
use crate::shape;

/// Makes all of the kernel's configuration for `cell`.
pub fn configure(cell: &Cell) -> Result<(), String> {
    settings(cell)?;
    let mut addresses = String::new();
    let mut devices = String::from("link set lo up\n");
    for at in 0..cell.paths.count() {
        let name = shape::device(at);
        let (ip, prefix) = (shape::kernel_ip(cell.family, at), shape::prefix(cell.family));
        let _ = writeln!(devices, "tuntap add dev {name} mode tun");
        let _ = writeln!(devices, "link set {name} txqueuelen 10000 addrgenmode none");
        let _ = writeln!(devices, "link set {name} up");
        let nodad = if cell.family == Family::V6 { " nodad" } else { "" };
        let _ = writeln!(addresses, "addr add {ip}/{prefix} dev {name}{nodad}");
        if cell.joins == Joins::KernelOwn {
            // Routes by source address: each on its own path, to any destination.
            let table = 100 + at;
            let _ = writeln!(addresses, "route add default dev {name} table {table}");
            let _ = writeln!(addresses, "rule add from {ip} table {table}");
        }
    }
    ip(&[], &devices)?;
    ip(if cell.family == Family::V6 { &["-6"] } else { &["-4"] }, &addresses)?;
    ip(&[], "mptcp limits set subflow 8 add_addr_accepted 8\n")?;
    if has_late_endpoints(cell) { Ok(()) } else { ip(&[], &endpoints(cell)) }
}

/// True if the kernel's additional endpoints are added once the connection exists. As a server it opens no
/// subflows for a connection that has not been accepted yet, and does not retry, so adding them earlier would
/// race with the program's `accept`.
pub fn has_late_endpoints(cell: &Cell) -> bool {
    cell.joins == Joins::KernelOwn && cell.client == Side::Anabranch
}

/// Adds the kernel's additional endpoints, or adds them again.
pub fn add_endpoints(cell: &Cell) -> Result<(), String> {
    ip(&[], "mptcp endpoint flush\n")?;
    ip(&[], &endpoints(cell))
}

/// Returns the configuration of the kernel's path manager for its additional addresses.
fn endpoints(cell: &Cell) -> String {
    let mut text = String::new();
    if cell.situation == Situation::ServerJoins {
        let (ip, port) = (shape::kernel_ip(cell.family, 1), shape::JOIN_PORT);
        let _ = writeln!(text, "mptcp endpoint add {ip} id 2 signal port {port}");
        return text;
    }
    let role = match cell.joins {
        Joins::KernelOwn => "subflow",
        Joins::AnabranchAnnounced => "signal",
        Joins::None | Joins::KernelAnnounced | Joins::AnabranchOwn => return text,
    };
    for at in 1..cell.paths.count() {
        let ip = shape::kernel_ip(cell.family, at);
        let backup = if cell.situation == Situation::KernelBackup { " backup" } else { "" };
        let _ = writeln!(text, "mptcp endpoint add {ip} id {} {role}{backup}", at + 1);
    }
    text
}

fn settings(cell: &Cell) -> Result<(), String> {
    let mut set = vec![
        // The kernel's memory of a failed attempt would spoil the next one.
        ("net/mptcp/blackhole_timeout", "0"),
        ("net/mptcp/add_addr_timeout", "2"),
        // The machine's default congestion control may be any; in a new namespace this one is always
        // permitted.
        ("net/ipv4/tcp_congestion_control", "reno"),
        ("net/ipv4/conf/all/rp_filter", "0"),
        ("net/ipv4/conf/default/rp_filter", "0"),
        ("net/ipv6/conf/all/accept_ra", "0"),
        ("net/ipv6/conf/default/accept_ra", "0"),
    ];
    let asks = cell.checksums == Checksums::Kernel;
    set.push(("net/mptcp/checksum_enabled", if asks { "1" } else { "0" }));
    if cell.family == Family::V4 {
        set.push(("net/ipv6/conf/all/disable_ipv6", "1"));
        set.push(("net/ipv6/conf/default/disable_ipv6", "1"));
    }
    for (name, value) in set {
        fs::write(format!("/proc/sys/{name}"), value).map_err(|error| format!("sysctl {name}: {error}"))?;
    }
    Ok(())
}

/// Runs `ip` with these arguments, and `batch` as its commands.
fn ip(arguments: &[&str], batch: &str) -> Result<(), String> {
    if batch.is_empty() {
        return Ok(());
    }
    let mut child = Command::new("ip")
        .args(arguments)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("ip: {error}"))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(batch.as_bytes()).map_err(|error| format!("ip: {error}"))?;
    }
    let output = child.wait_with_output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip -batch failed: {} in:\n{batch}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Waits until all devices of `cell`, which a process has opened, accept packets. The kernel starts them
/// asynchronously, which takes long if many namespaces are created and removed; packets sent before are lost,
/// three SYNs once.
pub fn wait_for_devices(cell: &Cell) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let output = Command::new("ip").args(["-o", "link", "show", "up"]).stdin(Stdio::null()).output();
        let links = output.map_err(|error| format!("ip: {error}"))?.stdout;
        let links = String::from_utf8_lossy(&links);
        let takes = |name: &String| {
            links.lines().any(|line| line.contains(&format!(" {name}: ")) && !line.contains(" state DOWN "))
        };
        if (0..cell.paths.count()).map(shape::device).all(|name| takes(&name)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("a device takes no packets:\n{links}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs one command of `ip`.
pub fn command(line: &str) -> Result<(), String> {
    ip(&[], &format!("{line}\n"))
}

//! The uplinks of a host's addresses: if the interface of an address fails, connections leave the address at once, and use it again when it is back.

use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use anabranch_kernel::uplinks::{Change, Uplinks};
use anabranch_net::Host;
use anabranch_net::device::tun::watch;

use crate::output;

/// The time in which all events of one change come.
const SETTLE: Duration = Duration::from_millis(10);

/// Follows the uplinks of these addresses, each with its TUN device, until the runtime ends. `report` gets a line for each change.
pub(crate) fn follow(
    host: &Host,
    addresses: impl IntoIterator<Item = (IpAddr, String)>,
    report: impl Fn(&str) + Send + 'static,
) {
    let opened = Uplinks::open(addresses).map_err(std::io::Error::other);
    let opened = opened.and_then(|uplinks| Ok((watch(uplinks.as_fd().try_clone_to_owned()?)?, uplinks)));
    let (fd, mut uplinks) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            output::warn(format_args!("interfaces that fail are noticed late: {error}"));
            return;
        }
    };
    let host = host.clone();
    tokio::spawn(async move {
        loop {
            let Ok(mut ready) = fd.readable().await else { return };
            // A route that is replaced in two steps is not lost in between.
            tokio::time::sleep(SETTLE).await;
            ready.clear_ready();
            let changes = match uplinks.changes(&host.peers()) {
                Ok(changes) => changes,
                Err(error) => {
                    output::warn(format_args!("interfaces that fail are noticed late from now on: {error}"));
                    return;
                }
            };
            for change in changes {
                carry_out(&host, &change);
                report(&words(&change));
            }
        }
    });
}

fn carry_out(host: &Host, change: &Change) {
    match *change {
        Change::Lost(ip) => host.set_address_up(ip, false),
        Change::Found(ip) => host.set_address_up(ip, true),
        Change::Moved(ip) => {
            host.set_address_up(ip, false);
            host.set_address_up(ip, true);
        }
    }
}

fn words(change: &Change) -> String {
    match change {
        Change::Lost(ip) => format!("path {ip} is lost: the system has no way for its packets"),
        Change::Found(ip) => format!("path {ip} is back"),
        Change::Moved(ip) => format!("path {ip} has another way, and begins anew"),
    }
}

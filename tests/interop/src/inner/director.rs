//! Waits for the expected subflows, and triggers the situation's event in mid-transfer.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anabranch_net::StreamControl;
use anabranch_stack::event::SubflowId;
use anabranch_stack::stats::SubflowStats;

use super::anabranch::Ours;
use super::{Meter, carried, namespace};
use crate::cell::{Cell, Situation};
use crate::counters::Counters;
use crate::shape;

const TICK: Duration = Duration::from_millis(3);

/// Returns the number of subflows that can carry data now.
fn live(subflows: &[SubflowStats]) -> usize {
    subflows.iter().filter(|subflow| subflow.established.is_some() && subflow.ended.is_none()).count()
}

/// Directs a transfer.
pub async fn direct(cell: &Cell, ours: &Ours, control: &StreamControl, meter: &Meter) {
    let deadline = Instant::now() + shape::patience(cell) / 2;
    let mut tell = namespace::has_late_endpoints(cell).then(Instant::now);
    let mut opens = cell.situation == Situation::ServerJoins;
    loop {
        // The kernel accepts no join on a port that it has not announced yet.
        if opens && Counters::read().mptcp("AddAddrTx") > 0 {
            let there = SocketAddr::new(shape::kernel_ip(cell.family, 1), shape::JOIN_PORT);
            // As soon as the peer has proved that it knows the keys.
            opens = !control.open_subflow(shape::anabranch_ip(cell.family, 1), there);
        }
        // The connection is fully established for the kernel when it has received the first byte.
        if let Some(due) = tell
            && meter.progress() > 0
            && Instant::now() > due + Duration::from_millis(100)
        {
            let cell = *cell;
            let told = tokio::task::spawn_blocking(move || namespace::add_endpoints(&cell)).await;
            if let Err(failure) = told.unwrap_or_else(|error| Err(error.to_string())) {
                meter.fail(failure);
            }
            tell = Some(Instant::now() + Duration::from_secs(2));
        }
        let up = live(&control.subflow_stats());
        if up >= cell.subflows() {
            break;
        }
        if Instant::now() > deadline {
            meter.fail(format!("{up} subflows came up of {}", cell.subflows()));
            break;
        }
        tokio::time::sleep(TICK).await;
    }
    meter.open_gate();
    let Some(at) = shape::happens_at(cell) else { return };
    let deadline = Instant::now() + shape::patience(cell);
    while meter.progress() < at {
        if Instant::now() > deadline || meter.is_stopped() {
            return;
        }
        tokio::time::sleep(TICK).await;
    }
    if let Err(failure) = act(cell, ours, control, meter).await {
        meter.fail(failure);
    }
}

/// Returns the bytes carried by every address but the first, in both directions.
fn aside(cell: &Cell, control: &StreamControl) -> u64 {
    carried(cell, &control.subflow_stats()).into_values().skip(1).map(|(sent, got)| sent + got).sum()
}

/// Returns the subflow that events affect: the last one.
fn victim(control: &StreamControl) -> Option<SubflowId> {
    control.subflow_stats().last().map(|subflow| subflow.id)
}

async fn act(cell: &Cell, ours: &Ours, control: &StreamControl, meter: &Meter) -> Result<(), String> {
    use Situation as S;
    let family = cell.family;
    match cell.situation {
        S::AnabranchRemoves => ours.host.set_address_up(shape::anabranch_ip(family, 1), false),
        S::KernelRemoves => ip("mptcp endpoint delete id 2".to_owned()).await?,
        S::AnabranchPrio => {
            let subflow = victim(control).ok_or("there is no second subflow")?;
            control.set_backup(subflow, true);
            stays_idle(cell, control, meter).await?;
        }
        S::KernelPrio => {
            ip("mptcp endpoint change id 2 backup".to_owned()).await?;
            stays_idle(cell, control, meter).await?;
        }
        S::CutRestored => {
            ours.switches[1].set_cut(true);
            tokio::time::sleep(Duration::from_millis(500)).await;
            let before = aside(cell, control);
            ours.switches[1].set_cut(false);
            let deadline = Instant::now() + shape::patience(cell);
            // A retransmission without new data is one segment; new data exceeds the data in flight.
            while aside(cell, control) < before + (512 << 10) {
                if Instant::now() > deadline || meter.progress() >= cell.load.bytes() {
                    return Err("the mended path was not used again".to_owned());
                }
                tokio::time::sleep(TICK).await;
            }
        }
        S::Blackhole => ours.switches[1].set_cut(true),
        S::SubflowReset => {
            ours.resets[1].set(true);
            let deadline = Instant::now() + Duration::from_secs(10);
            while live(&control.subflow_stats()) > 1 {
                if Instant::now() > deadline {
                    return Err("the reset has not ended the subflow".to_owned());
                }
                tokio::time::sleep(TICK).await;
            }
            ours.resets[1].set(false);
        }
        S::AnabranchFastClose => control.abort(),
        _ => {}
    }
    Ok(())
}

/// Checks that a subflow that was just made a backup stays idle: as soon as its queued data is sent, further
/// data is sent on the other.
async fn stays_idle(cell: &Cell, control: &StreamControl, meter: &Meter) -> Result<(), String> {
    let quiet = Duration::from_millis(200);
    let (mut last, mut since) = (aside(cell, control), Instant::now());
    let deadline = Instant::now() + shape::patience(cell);
    loop {
        tokio::time::sleep(TICK).await;
        if meter.progress() >= cell.load.bytes() || Instant::now() > deadline {
            return Err(format!("the backup was still in use at the end: {last} bytes in all"));
        }
        let now = aside(cell, control);
        if now > last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > quiet {
            return Ok(());
        }
    }
}

async fn ip(line: String) -> Result<(), String> {
    let run = tokio::task::spawn_blocking(move || namespace::command(&line));
    run.await.map_err(|error| error.to_string())?
}

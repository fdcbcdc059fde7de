//! The client of `bench`, which measures.

use std::io;
use std::sync::Arc;

use anabranch_lab::spoken;
use anabranch_net::{Host, StreamControl};
use anabranch_units::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::plan::Plan;
use super::watch::Watch;
use super::{Args, Reader, Writer, kernel, report};
use crate::failure::Failure;
use crate::online::bench::{self, Done, Mode, Progress};
use crate::online::fallback::{self, Fallback};
use crate::{online, output};

pub(super) async fn measure(
    args: &Args,
    plan: &Plan,
    host: Option<&Host>,
    name: &str,
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Failed(format!("{name}: {error}"));
    let progress: Arc<Progress> = Arc::default();
    let mut controls: Vec<StreamControl> = Vec::new();
    let mut ready: Vec<(Reader, Writer)> = Vec::new();
    let mut fallbacks: Vec<Fallback> = Vec::new();
    let begun = Instant::now();
    match host {
        Some(host) => {
            let to = online::resolve(host, name, Some(args.port)).await.map_err(Failure::Failed)?;
            let mut config = args.host.config();
            if plan.hello.mode != Mode::Download {
                config.flow_size = plan.hello.limit.bytes.map(Bytes);
            }
            let opening = async {
                let mut opening = JoinSet::new();
                for _ in 0..args.parallel {
                    let (host, config) = (host.clone(), config.clone());
                    opening.spawn(async move { host.connect(to, config).await });
                }
                opening.join_all().await.into_iter().collect::<io::Result<Vec<_>>>()
            };
            for stream in args.connect.wait(to, opening).await.map_err(Failure::Failed)? {
                controls.push(stream.control());
                let (read, write) = stream.into_split();
                ready.push((Box::new(read), Box::new(write)));
            }
        }
        None => {
            let opening = async {
                let mut opened = Vec::new();
                for _ in 0..args.parallel {
                    opened.push(kernel::connect(args, name).await?);
                }
                Ok(opened)
            };
            let to = format!("{name} port {}", args.port);
            for (connection, opened) in
                args.connect.wait(to, opening).await.map_err(Failure::Failed)?.into_iter().enumerate()
            {
                if opened.is_multipath == Some(false) {
                    fallbacks.push(Fallback::of_kernel(connection));
                }
                ready.push((opened.read, opened.write));
            }
        }
    }
    if !args.json {
        let took = begun.elapsed().as_secs_f64();
        output::remark(format_args!(
            "{} connected in {}",
            spoken::counted(u64::from(args.parallel), "connection"),
            output::span(took)
        ));
    }
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    let mut stats = Watch::new(begun, controls, Arc::clone(&progress));
    for (connection, (read, write)) in ready.into_iter().enumerate() {
        let progress = Arc::clone(&progress);
        let done = bench::drive(read, write, plan.hello, args.ping.unwrap_or(0), progress);
        tasks.spawn(async move { (connection, done.await) });
    }
    let mut all: Vec<Done> = Vec::new();
    let mut intervals = Vec::new();
    let mut next = plan.interval.map(|interval| begun + interval);
    while !tasks.is_empty() {
        let tick = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(done) = tasks.join_next() => {
                let (connection, done) = done.map_err(|error| Failure::Failed(error.to_string()))?;
                all.push(done.map_err(failed)?);
                stats.look(connection);
            }
            () = tick => {
                let interval = stats.interval();
                if args.json {
                    intervals.push(interval);
                } else {
                    output::print_part(&report::show(&interval))?;
                }
                next = next.zip(plan.interval).map(|(at, interval)| at + interval);
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    stats.fallbacks.extend(fallbacks);
    stats.fallbacks.sort_by_key(|fallback| fallback.connection);
    fallback::warn(&stats.fallbacks, args.parallel as usize);
    let result = report::summary(args, seconds, &all, &stats, intervals);
    if args.json { output::print_json(&result) } else { output::print(&report::text(&result, &stats)) }
}

//! The classes of traffic in the canonical form.

use anabranch_sim::application::{Datagrams, OnOff, Pace, Requests, Video};

use super::form::Canonical;
use crate::model::{Direction, FlowSize, Form, Kind, Start, TrafficClass, Via};
use crate::text::base::{bytes, distribution, instant, list, number, optional, time};

fn name_of(direction: Direction) -> &'static str {
    match direction {
        Direction::Upload => "upload",
        Direction::Download => "download",
    }
}

/// Writes all classes. Nothing about them has a default, so that the form does not depend on any.
pub(super) fn write(form: &mut Canonical<'_>, classes: &[TrafficClass], network: Direction, shape: Form) {
    // The direction of the data in the network's description.
    form.always("traffic.network", name_of(network));
    for class in classes {
        let TrafficClass { name, kind, pairs, flows, start, direction, via, size_known } = class;
        // Random streams depend on the name.
        form.always("traffic.class", name);
        if shape == Form::Graph {
            form.always("class.pairs", list(pairs));
        }
        form.always("class.flows", flows);
        form.always("class.direction", name_of(*direction));
        match start {
            Start::Together(at) => form.always("class.start", instant(*at)),
            Start::At(times) => form.always("class.starts", list(times.iter().map(|at| at.0))),
            Start::Poisson { from, load } => {
                form.always("class.load", format!("{} from {}", number(*load), instant(*from)));
            }
            Start::Every { from, gap } => {
                form.always("class.every", format!("{} from {}", distribution(gap), instant(*from)));
            }
        }
        let path = |path: &Option<usize>| optional(*path, |path| path.to_string());
        match via {
            Via::Contender => form.always("class.via", "contender"),
            Via::Tcp(at) => form.always("class.via", format!("tcp {}", path(at))),
            Via::Udp(at) => form.always("class.via", format!("udp {}", path(at))),
        }
        write_kind(form, kind);
        if let Kind::Transfer { .. } = kind {
            form.always("class.size-known", size_known);
        }
    }
}

fn write_kind(form: &mut Canonical<'_>, kind: &Kind) {
    form.always("class.kind", kind.name());
    match kind {
        Kind::Transfer { size, duration } => match size {
            FlowSize::Web { max } => form.always("class.size", format!("web {}", optional(*max, bytes))),
            FlowSize::Fixed(size) => form.always("class.size", bytes(*size)),
            FlowSize::Drawn(sizes) => form.always("class.size", distribution(sizes)),
            FlowSize::Bulk => form.always("class.size", format!("bulk {}", time(*duration))),
        },
        Kind::Requests(Requests { request, response, pace, count, span }) => {
            form.always("class.size", distribution(response));
            form.always("class.request", distribution(request));
            match pace {
                Pace::Closed(think) => form.always("class.think", distribution(think)),
                Pace::Open(gap) => form.always("class.gap", distribution(gap)),
            }
            form.always("class.requests", optional(*count, |count| count.to_string()));
            form.always("class.duration", time(*span));
        }
        Kind::OnOff(OnOff { on, off, rate, span }) => {
            form.always("class.on", distribution(on));
            form.always("class.off", distribution(off));
            form.always("class.rate", format!("{} bit/s", rate.0));
            form.always("class.duration", time(*span));
        }
        Kind::Datagrams(Datagrams { payload, gap, span }) => {
            form.always("class.size", format!("{payload} B"));
            form.always("class.gap", distribution(gap));
            form.always("class.duration", time(*span));
        }
        Kind::Video(Video { segment, segments, ladder, startup, resume, buffer }) => {
            form.always("class.segment", time(*segment));
            form.always("class.segments", segments);
            form.always("class.bitrate", list(ladder.iter().map(|rate| rate.0)));
            form.always("class.startup", time(*startup));
            form.always("class.resume", time(*resume));
            form.always("class.buffer", time(*buffer));
        }
    }
}

//! A scheduler of your own: a metered path is used only for what the free one cannot send in time.

use anabranch_stack::event::SubflowId;
use anabranch_stack::scheduler::{
    AssignKind, CustomScheduler, Decision, Rule, Scheduler, SubflowView, View, Why,
};
use anabranch_units::Duration;

/// The first subflow is free; the others cost money, and are used while what remains would take longer
/// than `patience` on the free one.
#[derive(Clone)]
pub struct Thrifty {
    pub patience: Duration,
}

impl Scheduler for Thrifty {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        // Data of a subflow that has failed goes before new data, and anywhere.
        let again = view.reinject.first().map(|pending| (pending.range, AssignKind::Reinject));
        let new = view.next_new(u64::MAX).map(|range| (range, AssignKind::New));
        let Some((mut range, kind)) = again.or(new) else {
            return Decision::Wait { until: None, why: Why::rule(Rule::NothingToSend) };
        };
        let free = view.subflow(SubflowId(0)).filter(|subflow| subflow.may_carry());
        let hurry = free.is_none_or(|free| seconds_for(free, view.remaining) > self.patience.as_secs_f64());
        let may = |subflow: &&SubflowView| {
            let allowed = subflow.id == SubflowId(0) || hurry || kind == AssignKind::Reinject;
            allowed && subflow.may_carry() && subflow.room() > 0
        };
        // The free one first, then the quickest of the others.
        match view.subflows.iter().filter(may).min_by_key(|subflow| (subflow.id.0 > 0, subflow.srtt)) {
            Some(subflow) => {
                range.end = range.end.min(range.start + subflow.room()).min(view.window_end);
                let why = Why::rule(Rule::Custom(1));
                Decision::Assign { subflow: subflow.id, range, kind, why }
            }
            None => Decision::Wait { until: None, why: Why::rule(Rule::NoRoom) },
        }
    }
}

/// How long `bytes` take on `subflow` at a window per round trip.
fn seconds_for(subflow: &SubflowView, bytes: u64) -> f64 {
    let rtt = subflow.srtt.map_or(0.0, |rtt| rtt.as_secs_f64());
    rtt * bytes as f64 / subflow.cwnd.max(1) as f64
}

impl CustomScheduler for Thrifty {
    fn clone_box(&self) -> Box<dyn CustomScheduler> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_stack::seq::DataRange;
    use anabranch_units::Time;

    /// Who carries the next of `bytes`: the free path has 10 segments every 20 ms.
    fn carrier(bytes: u64, free_is_full: bool) -> Option<u8> {
        let ms = Duration::from_millis;
        let mut free = SubflowView::idle(SubflowId(0), ms(20), 10, 1000);
        free.inflight = if free_is_full { free.cwnd } else { 0 };
        let subflows = [free, SubflowView::idle(SubflowId(1), ms(10), 10, 1000)];
        let unassigned = [DataRange::new(0, bytes)];
        let view = View::fresh(Time::ZERO, &subflows, &unassigned);
        match (Thrifty { patience: ms(500) }).decide(&view) {
            Decision::Assign { subflow, .. } => Some(subflow.0),
            _ => None,
        }
    }

    #[test]
    fn the_metered_path_is_used_only_in_a_hurry() {
        assert_eq!(carrier(1_000_000, false), Some(0));
        assert_eq!(carrier(250_000, true), None);
        assert_eq!(carrier(260_000, true), Some(1));
    }
}

//! The rows about the data of a stream.

use anabranch_sim::FlowId;
use anabranch_stack::event::SubflowId;
use anabranch_stack::scheduler::{Decision, Why};
use anabranch_stack::seq::DataRange;
use anabranch_units::Time;

use crate::batch::{DecisionRow, EventRow};
use crate::names::{AssignName, DecisionName, EventName, LossName, Stream};
use crate::tables::Tables;
use crate::xpl::Xpl;

/// Where the rows about the data of a stream go.
pub(crate) struct Data<'a> {
    pub(crate) tables: &'a mut Tables,
    pub(crate) xpl: Option<&'a mut Xpl>,
    pub(crate) now: Time,
    pub(crate) flow: FlowId,
    pub(crate) stream: Stream,
}

impl Data<'_> {
    #[inline]
    fn row(
        &mut self,
        subflow: SubflowId,
        event: EventName,
        range: Option<DataRange>,
        window_edge_bytes: Option<u64>,
        reason: Option<LossName>,
    ) {
        self.tables.event(&EventRow {
            time: self.now,
            flow: self.flow.0,
            stream: self.stream,
            subflow: subflow.0,
            event,
            from_bytes: range.map(|range| range.start),
            to_bytes: range.map(|range| range.end),
            window_edge_bytes,
            reason,
        });
    }

    #[inline]
    pub(crate) fn event(&mut self, subflow: SubflowId, event: EventName, range: DataRange) {
        self.row(subflow, event, Some(range), None, None);
        if let Some(xpl) = &mut self.xpl
            && event != EventName::Received
        {
            xpl.sent((self.flow, self.stream), self.now, subflow, event, range);
        }
    }

    pub(crate) fn lost(&mut self, subflow: SubflowId, range: DataRange, reason: LossName) {
        self.row(subflow, EventName::Lost, Some(range), None, Some(reason));
    }

    pub(crate) fn undone(&mut self, subflow: SubflowId) {
        self.row(subflow, EventName::Undone, None, None, None);
    }

    #[inline]
    pub(crate) fn acked(&mut self, subflow: SubflowId, range: DataRange, edge: Option<u64>) {
        self.row(subflow, EventName::DataAcked, Some(range), edge, None);
        if let Some(xpl) = &mut self.xpl {
            xpl.acked((self.flow, self.stream), self.now, range.end, edge.unwrap_or(range.end));
        }
    }

    pub(crate) fn decision(&mut self, decision: &Decision) {
        let (name, subflow, kind, range, why, until) = match *decision {
            Decision::Assign { subflow, range, kind, why } => {
                (DecisionName::Assign, Some(subflow), Some(AssignName::from(kind)), Some(range), why, None)
            }
            Decision::Recall { subflow, range, why } => {
                (DecisionName::Recall, Some(subflow), None, Some(range), why, None)
            }
            Decision::Wait { until, why } => (DecisionName::Wait, None, None, None, why, until),
        };
        let Why { rule, score, other } = why;
        self.tables.decision(&DecisionRow {
            time: self.now,
            flow: self.flow.0,
            stream: self.stream,
            decision: name,
            subflow: subflow.map(|subflow| subflow.0),
            kind,
            from_bytes: range.map(|range| range.start),
            to_bytes: range.map(|range| range.end),
            rule: rule.into(),
            score,
            other_score: other,
            until,
        });
    }
}

//! The luck of each packet: all that is drawn when it is offered.

use anabranch_units::{Duration, RandomStream, Time};

use crate::jitter::JitterProcess;
use crate::loss::LossProcess;
use crate::timeline::{Change, Timeline};
use crate::{LinkConfig, Loss, LossCause, Reordering};

/// What was drawn for one packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    /// Lost, and by what.
    pub(crate) loss: Option<LossCause>,
    /// Delay on top of the propagation delay.
    pub(crate) extra: Duration,
    /// Held back to be overtaken.
    pub(crate) overtaken: bool,
    /// Followed by a copy.
    pub(crate) duplicate: bool,
}

impl Fate {
    /// The fate of every packet of a link that has no impairments.
    pub(crate) const NOTHING: Fate =
        Fate { loss: None, extra: Duration::ZERO, overtaken: false, duplicate: false };
}

/// The random parts of a link, each with its own stream. A part that the configuration never uses draws
/// nothing; one that it uses draws once for each packet offered, whatever becomes of the packet.
#[derive(Clone, Debug)]
pub(crate) struct Impairments {
    loss: Option<LossProcess>,
    drop_list: DropList,
    jitter: Option<JitterProcess>,
    reordering: Option<(RandomStream, Reordering)>,
    duplicate: Option<(RandomStream, f64)>,
}

impl Impairments {
    /// The impairments of the link `name`; `None` if it has none, so that a plain link pays nothing.
    pub(crate) fn new(
        seed: u64,
        name: &str,
        config: &LinkConfig,
        timeline: &Timeline,
    ) -> Option<Box<Impairments>> {
        let stream = |part: &str| RandomStream::new(seed, &format!("link.{name}.{part}"));
        // Loss that begins with a later step draws from the first packet on, so that its n-th draw, too, belongs
        // to the n-th packet.
        let loss_at_some_time = config.loss != Loss::None
            || timeline.steps().iter().any(|step| matches!(step.change, Change::Loss(_)));
        let impairments = Impairments {
            loss: loss_at_some_time.then(|| LossProcess::new(seed, name, config.loss)),
            drop_list: DropList::new(&config.drop_list),
            jitter: config.jitter.map(|jitter| JitterProcess::new(seed, name, jitter.shape)),
            reordering: config.reordering.map(|reordering| (stream("reorder"), reordering)),
            duplicate: (config.duplicate > 0.0).then(|| (stream("duplicate"), config.duplicate)),
        };
        let none = impairments.loss.is_none()
            && impairments.drop_list.is_done()
            && impairments.jitter.is_none()
            && impairments.reordering.is_none()
            && impairments.duplicate.is_none();
        (!none).then(|| Box::new(impairments))
    }

    /// The fate of the packet with this number (counted from 1), which is offered `now`.
    pub(crate) fn draw(&mut self, now: Time, number: u64) -> Fate {
        let mut fate = Fate::NOTHING;
        if let Some(loss) = &mut self.loss {
            fate.loss = loss.draw(now);
        }
        if self.drop_list.names(number) {
            fate.loss = Some(LossCause::Listed);
        }
        if let Some(jitter) = &mut self.jitter {
            fate.extra = jitter.draw();
        }
        if let Some((stream, reordering)) = &mut self.reordering
            && stream.chance(reordering.probability)
        {
            fate.overtaken = true;
            fate.extra += reordering.extra;
        }
        if let Some((stream, probability)) = &mut self.duplicate {
            fate.duplicate = stream.chance(*probability);
        }
        fate
    }

    /// Another loss model from `now` on.
    pub(crate) fn change_loss(&mut self, now: Time, model: Loss) {
        if let Some(loss) = &mut self.loss {
            loss.change(now, model);
        }
    }
}

/// The packets that are to be dropped, by number.
#[derive(Clone, Debug)]
struct DropList {
    /// Falling, so that the next one is the last.
    numbers: Vec<u64>,
}

impl DropList {
    fn new(numbers: &[u64]) -> DropList {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.dedup();
        DropList { numbers }
    }

    fn is_done(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Whether the list names `number`; the numbers asked for must rise.
    fn names(&mut self, number: u64) -> bool {
        let named = self.numbers.last() == Some(&number);
        if named {
            self.numbers.pop();
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Step;

    #[test]
    fn the_drop_list_names_its_numbers_in_any_order_and_once() {
        let mut list = DropList::new(&[17, 3, 3, 4]);
        let named: Vec<u64> = (1..30).filter(|&n| list.names(n)).collect();
        assert_eq!(named, [3, 4, 17]);
        assert!(list.is_done());
    }

    #[test]
    fn a_plain_link_has_no_impairments_and_late_loss_is_one() {
        let mut config = LinkConfig::default();
        let make = |config: &LinkConfig| {
            Impairments::new(1, "a", config, &Timeline::new(config.timeline.clone())).is_some()
        };
        assert!(!make(&config));
        config.timeline = vec![Step { at: Time(5), change: Change::Loss(Loss::Bernoulli(0.1)) }];
        assert!(make(&config));
    }
}

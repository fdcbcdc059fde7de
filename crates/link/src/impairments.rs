//! The luck of each packet: all that is drawn when it is offered.

use anabranch_units::{Duration, RandomStream, Time};

use crate::jitter::JitterProcess;
use crate::loss::LossProcess;
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Impairments {
    loss: Option<LossProcess>,
    drop_list: DropList,
    jitter: Option<JitterProcess>,
    reordering: Option<(RandomStream, Reordering)>,
    duplicate: Option<(RandomStream, f64)>,
}

impl Impairments {
    /// The impairments of the link `name`; `None` if it has none, so that a plain link pays nothing.
    pub(crate) fn new(seed: u64, name: &str, config: &LinkConfig) -> Option<Box<Impairments>> {
        let stream = |part: &str| RandomStream::new(seed, &format!("link.{name}.{part}"));
        let impairments = Impairments {
            loss: (config.loss != Loss::None).then(|| LossProcess::new(seed, name, config.loss)),
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

    /// Another loss model from `now` on, when so many packets have been offered to the link `name`.
    pub(crate) fn change_loss(&mut self, now: Time, model: Loss, seed: u64, name: &str, offered: u64) {
        self.loss
            .get_or_insert_with(|| {
                // Nothing was drawn while nothing could be lost, but the n-th draw is still the n-th packet's.
                let mut loss = LossProcess::new(seed, name, Loss::None);
                loss.skip(offered);
                loss
            })
            .change(now, model);
    }
}

/// The packets that are to be dropped, by number.
#[derive(Clone, Debug, Default)]
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

    #[test]
    fn the_drop_list_names_its_numbers_in_any_order_and_once() {
        let mut list = DropList::new(&[17, 3, 3, 4]);
        let named: Vec<u64> = (1..30).filter(|&n| list.names(n)).collect();
        assert_eq!(named, [3, 4, 17]);
        assert!(list.is_done());
    }

    #[test]
    fn a_plain_link_has_no_impairments() {
        assert!(Impairments::new(1, "a", &LinkConfig::default()).is_none());
        let listed = LinkConfig { drop_list: vec![1], ..LinkConfig::default() };
        assert!(Impairments::new(1, "a", &listed).is_some());
    }

    #[test]
    fn loss_that_begins_later_draws_as_if_it_had_been_there() {
        let config = LinkConfig { loss: Loss::Bernoulli(0.3), ..LinkConfig::default() };
        let mut always = Impairments::new(1, "a", &config).unwrap();
        let mut later = Impairments::default();
        later.change_loss(Time(5), config.loss, 1, "a", 100);
        for number in 1..300 {
            let loss = always.draw(Time(number), number).loss;
            assert!(number <= 100 || loss == later.draw(Time(number), number).loss);
        }
    }
}

//! The random draws of each packet, made when it is offered.

use anabranch_units::{Duration, RandomStream, Time};

use crate::jitter::JitterProcess;
use crate::loss::LossProcess;
use crate::{Effect, Effects, LinkConfig, Loss, LossCause, LossDraws, Reordering};

/// The draws of one packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    /// The cause of its loss, if it is lost.
    pub(crate) loss: Option<LossCause>,
    /// The delay added to the propagation delay.
    pub(crate) extra: Duration,
    /// True if it is delayed so that others overtake it.
    pub(crate) overtaken: bool,
    pub(crate) duplicate: bool,
    /// The effects on it, if it is not lost.
    pub(crate) effects: Effects,
}

impl Fate {
    /// The fate of every packet on a link without impairments.
    pub(crate) const NOTHING: Fate = Fate {
        loss: None,
        extra: Duration::ZERO,
        overtaken: false,
        duplicate: false,
        effects: Effects::NONE,
    };

    /// Returns the fate on a link that repeats lost packets after this time.
    pub(crate) fn repeated(mut self, after: Option<Duration>) -> Fate {
        if let (Some(after), Some(_)) = (after, self.loss) {
            self.loss = None;
            self.extra += after;
        }
        self
    }
}

/// The impairments of a link.
#[derive(Clone, Debug)]
pub(crate) struct Impairments {
    /// The draws of all packets, or of the packets that carry data.
    first: Draws,
    /// The draws of packets without data, if they are separate.
    bare: Option<Draws>,
}

/// The random parts of a link, each with its own stream. A part that the configuration never uses draws
/// nothing; one that it uses draws once for each packet offered, whatever its fate.
#[derive(Clone, Debug, Default)]
struct Draws {
    /// The number of packets that have drawn.
    offered: u64,
    loss: Option<LossProcess>,
    drop_list: DropList,
    jitter: Option<JitterProcess>,
    reordering: Option<(RandomStream, Reordering)>,
    duplicate: Option<(RandomStream, f64)>,
    corrupt: Option<(RandomStream, f64)>,
}

impl Impairments {
    /// Returns the impairments of the link `name`; `None` if it has none, so that a plain link has no cost.
    pub(crate) fn new(seed: u64, name: &str, config: &LinkConfig) -> Option<Box<Impairments>> {
        let first = Draws::new(seed, name, name, config, &config.drop_list);
        let bare = match config.loss_draws {
            LossDraws::Shared => None,
            LossDraws::Separate => Some(Draws::new(seed, &bare(name), name, config, &[])),
        };
        // Packets without data have no drop list, and otherwise the same parts.
        (!first.is_nothing()).then(|| Box::new(Impairments { first, bare }))
    }

    /// Returns the impairments of a link that had none for the first `offered` packets; `bare` of them
    /// carried no data.
    pub(crate) fn none(draws: LossDraws, offered: u64, bare: u64) -> Box<Impairments> {
        let after = |offered| Draws { offered, ..Draws::default() };
        Box::new(match draws {
            LossDraws::Shared => Impairments { first: after(offered), bare: None },
            LossDraws::Separate => Impairments { first: after(offered - bare), bare: Some(after(bare)) },
        })
    }

    /// Returns the fate of the next packet, offered at `now` with or without `data`.
    pub(crate) fn draw(&mut self, now: Time, data: bool) -> Fate {
        match &mut self.bare {
            Some(bare) if !data => bare.draw(now),
            _ => self.first.draw(now),
        }
    }

    /// Replaces the loss model of the link `name` from `now` on.
    pub(crate) fn change_loss(&mut self, now: Time, model: Loss, seed: u64, name: &str) {
        self.first.change_loss(now, model, seed, name, name);
        if let Some(own) = &mut self.bare {
            own.change_loss(now, model, seed, &bare(name), name);
        }
    }
}

/// Returns the name of the streams of packets without data.
fn bare(name: &str) -> String {
    format!("{name}.bare")
}

impl Draws {
    /// Returns the draws with the stream name `name` on the link `link`.
    fn new(seed: u64, name: &str, link: &str, config: &LinkConfig, drop_list: &[u64]) -> Draws {
        let stream = |part: &str| RandomStream::new(seed, &format!("link.{name}.{part}"));
        Draws {
            offered: 0,
            loss: (config.loss != Loss::None).then(|| LossProcess::new(seed, name, link, config.loss)),
            drop_list: DropList::new(drop_list),
            jitter: config.jitter.map(|jitter| JitterProcess::new(seed, name, jitter.shape)),
            reordering: config.reordering.map(|reordering| (stream("reorder"), reordering)),
            duplicate: (config.duplicate > 0.0).then(|| (stream("duplicate"), config.duplicate)),
            corrupt: (config.corrupt > 0.0).then(|| (stream("corrupt"), config.corrupt)),
        }
    }

    fn is_nothing(&self) -> bool {
        self.loss.is_none()
            && self.drop_list.is_done()
            && self.jitter.is_none()
            && self.reordering.is_none()
            && self.duplicate.is_none()
            && self.corrupt.is_none()
    }

    fn draw(&mut self, now: Time) -> Fate {
        self.offered += 1;
        let mut fate = Fate::NOTHING;
        if let Some(loss) = &mut self.loss {
            fate.loss = loss.draw(now);
        }
        if self.drop_list.names(self.offered) {
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
        if let Some((stream, probability)) = &mut self.corrupt {
            fate.effects = fate.effects.with_if(Effect::Corrupted, stream.chance(*probability));
        }
        fate
    }

    fn change_loss(&mut self, now: Time, model: Loss, seed: u64, name: &str, link: &str) {
        let offered = self.offered;
        self.loss
            .get_or_insert_with(|| {
                // Nothing was drawn while no loss was possible, but the n-th draw still belongs to the n-th
                // packet.
                let mut loss = LossProcess::new(seed, name, link, Loss::None);
                loss.skip(offered);
                loss
            })
            .change(now, model);
    }
}

/// The numbers of the packets to drop.
#[derive(Clone, Debug, Default)]
struct DropList {
    /// In descending order, so that the next one is the last.
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

    /// True if the list contains `number`; calls must have ascending numbers.
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
    use crate::GilbertElliott;

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
    fn corruption_hits_its_share_and_shifts_no_other_draw() {
        let config = LinkConfig { loss: Loss::Bernoulli(0.1), ..LinkConfig::default() };
        let mut clean = Impairments::new(1, "a", &config).unwrap();
        let mut noisy = Impairments::new(1, "a", &LinkConfig { corrupt: 0.05, ..config }).unwrap();
        let mut corrupted = 0;
        for number in 1..=100_000 {
            let fate = noisy.draw(Time(number), true);
            assert_eq!(fate.loss, clean.draw(Time(number), true).loss);
            corrupted += u32::from(fate.effects.has(Effect::Corrupted));
        }
        assert!((4_700..5_300).contains(&corrupted), "{corrupted}");
    }

    #[test]
    fn loss_that_begins_later_draws_as_if_it_had_been_there() {
        for draws in [LossDraws::Shared, LossDraws::Separate] {
            let config =
                LinkConfig { loss: Loss::Bernoulli(0.3), loss_draws: draws, ..LinkConfig::default() };
            let mut always = Impairments::new(1, "a", &config).unwrap();
            // One packet of three carries no data.
            let mut later = Impairments::none(draws, 99, 33);
            later.change_loss(Time(5), config.loss, 1, "a");
            let mut lost = 0;
            for number in 0..300 {
                let data = number % 3 > 0;
                let loss = always.draw(Time(number), data).loss;
                if number >= 99 {
                    assert_eq!(loss, later.draw(Time(number), data).loss, "{draws:?} {number}");
                    lost += u32::from(loss.is_some());
                }
            }
            assert!(lost > 30, "{lost}");
        }
    }

    #[test]
    fn data_packets_have_the_same_draws_whatever_is_between_them() {
        let channel = GilbertElliott {
            mean_good: Duration::from_millis(2),
            mean_bad: Duration::from_millis(1),
            loss_good: 0.01,
            loss_bad: 0.6,
        };
        for loss in [Loss::Bernoulli(0.3), Loss::GilbertElliott(channel)] {
            let config = LinkConfig {
                loss,
                drop_list: vec![7, 99],
                loss_draws: LossDraws::Separate,
                ..LinkConfig::default()
            };
            let mut alone = Impairments::new(1, "a", &config).unwrap();
            let mut between = alone.clone();
            let shared = LinkConfig { loss_draws: LossDraws::Shared, ..config.clone() };
            let mut of_all = Impairments::new(1, "a", &shared).unwrap();
            let (mut lost, mut bare_lost) = (0, 0);
            for number in 1..2000_u64 {
                let now = Time::from_millis(number) + Duration(1);
                let fate = alone.draw(now, true).loss;
                assert_eq!(
                    fate,
                    of_all.draw(now, true).loss,
                    "without other packets the draws are the shared ones"
                );
                for _ in 0..number % 3 {
                    bare_lost += u64::from(between.draw(now, false).loss.is_some());
                }
                assert_eq!(fate, between.draw(now, true).loss, "{number}");
                lost += u64::from(fate.is_some());
                assert!(number != 99 || fate == Some(LossCause::Listed));
            }
            assert!(lost > 200 && bare_lost > 200, "{lost} {bare_lost}");
        }
    }
}

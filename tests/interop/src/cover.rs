//! Selects the cells to run: the full product of the choices, or a small set that covers every pair of them;
//! and each special situation in both roles.

use std::collections::BTreeSet;

use crate::cell::{Cell, Checksums, Data, Family, Joins, Load, Paths, Side, Situation};

/// Returns every plain cell.
pub fn product() -> Vec<Cell> {
    let mut cells = Vec::new();
    for &client in Side::ALL {
        for &family in Family::ALL {
            for &paths in Paths::ALL {
                for &load in Load::ALL {
                    for &data in Data::ALL {
                        for &joins in Joins::ALL {
                            for &checksums in Checksums::ALL {
                                let situation = Situation::Plain;
                                cells.push(Cell {
                                    client,
                                    family,
                                    paths,
                                    load,
                                    data,
                                    joins,
                                    checksums,
                                    situation,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    cells.retain(Cell::is_valid);
    cells
}

/// A choice of a cell: the dimension, and the value.
type Choice = (u8, &'static str);

fn choices(cell: &Cell) -> [Choice; 7] {
    [
        (0, cell.client.name()),
        (1, cell.family.name()),
        (2, cell.paths.name()),
        (3, cell.load.name()),
        (4, cell.data.name()),
        (5, cell.joins.name()),
        (6, cell.checksums.name()),
    ]
}

fn pairs(cell: &Cell) -> BTreeSet<(Choice, Choice)> {
    let choices = choices(cell);
    let pairs = (0..choices.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    pairs.map(|(a, b)| (choices[a], choices[b])).collect()
}

/// Returns a subset of `cells` that has every pair of choices that any of them has. Adds greedily the cell
/// with the most new pairs, the first of several.
pub fn pairwise(cells: &[Cell]) -> Vec<Cell> {
    let mut missing: BTreeSet<_> = cells.iter().flat_map(pairs).collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let gain = |cell: &Cell| pairs(cell).intersection(&missing).count();
        let mut best: Option<(usize, &Cell)> = None;
        for cell in cells {
            let gain = gain(cell);
            if best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, cell));
            }
        }
        let Some((_, cell)) = best else { break };
        for pair in pairs(cell) {
            missing.remove(&pair);
        }
        chosen.push(*cell);
    }
    chosen
}

/// Returns the special situations, each with either side as the client.
pub fn special() -> Vec<Cell> {
    let mut cells = Vec::new();
    for &situation in Situation::ALL {
        for &client in Side::ALL {
            cells.extend(situated(situation, client));
        }
    }
    debug_assert!(cells.iter().all(Cell::is_valid));
    cells
}

/// Returns the cell of a situation, if `client` can be the client in it.
fn situated(situation: Situation, client: Side) -> Option<Cell> {
    use Situation as S;
    let own = match client {
        Side::Kernel => Joins::KernelAnnounced,
        Side::Anabranch => Joins::AnabranchOwn,
    };
    let cell = Cell {
        client,
        family: Family::V4,
        paths: Paths::Two,
        load: Load::Medium,
        data: Data::Down,
        joins: own,
        checksums: Checksums::Off,
        situation,
    };
    let single = Cell { paths: Paths::One, joins: Joins::None, load: Load::Small, ..cell };
    let kernel = client == Side::Kernel;
    let kernels = if kernel { Joins::KernelOwn } else { Joins::AnabranchAnnounced };
    let (from_kernel, from_anabranch) = if kernel { (Data::Up, Data::Down) } else { (Data::Down, Data::Up) };
    Some(match situation {
        S::Plain => return None,
        S::AnabranchBackup => cell,
        // REMOVE_ADDR and MP_PRIO are sent once. Their sender sends no data: a full queue might lose
        // them; and the receiver has to act on them.
        S::AnabranchRemoves | S::AnabranchPrio => Cell { data: from_kernel, ..cell },
        // The kernel signals only one subflow if an endpoint has several.
        S::KernelPrio => Cell { joins: Joins::KernelOwn, data: from_anabranch, ..cell },
        // The kernel withdraws, or makes a backup, an address that it joins from or has announced.
        S::KernelRemoves => Cell { joins: kernels, data: from_anabranch, ..cell },
        S::KernelBackup => Cell { joins: kernels, ..cell },
        S::CutRestored | S::Blackhole => cell,
        S::HalfClose => Cell { data: Data::Both, load: Load::Small, family: Family::V6, ..cell },
        S::SubflowReset => Cell { data: Data::Up, ..cell },
        S::AnabranchFastClose | S::KernelFastClose => cell,
        S::StripSyn | S::StripSynAck | S::StripAfterSyns | S::StripData => {
            Cell { data: Data::Both, ..single }
        }
        S::RewriteSequence => Cell { data: Data::Both, load: Load::Small, ..cell },
        S::Split => Cell { data: Data::Both, load: Load::Small, checksums: Checksums::Kernel, ..cell },
        S::Coalesce => Cell { data: Data::Both, load: Load::Small, family: Family::V6, ..cell },
        S::AlterPayload => Cell { checksums: Checksums::Kernel, ..cell },
        S::ServerJoins if !kernel => return None,
        S::ServerJoins => Cell { data: Data::Both, load: Load::Small, joins: Joins::AnabranchOwn, ..cell },
        S::LostHandshakes => Cell { load: Load::Byte, data: Data::Both, ..single },
        S::Offload => Cell { load: Load::Large, data: Data::Both, ..cell },
        S::Wget | S::Curl if !kernel => return None,
        S::Wget | S::Curl => cell,
        S::Iperf3 => cell,
    })
}

/// Returns the default cells.
pub fn covering() -> Vec<Cell> {
    let mut cells = pairwise(&product());
    cells.extend(special());
    cells
}

/// Returns all cells.
pub fn full() -> Vec<Cell> {
    let mut cells = product();
    cells.extend(special());
    let lost = |cell: &&Cell| cell.situation == Situation::LostHandshakes;
    let random: Vec<_> = cells.iter().filter(lost).map(|cell| Cell { load: Load::Lossy, ..*cell }).collect();
    cells.extend(random);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_covering_set_has_every_pair_that_there_is_and_at_most_80_cells() {
        let all: BTreeSet<_> = product().iter().flat_map(pairs).collect();
        let covered: BTreeSet<_> = pairwise(&product()).iter().flat_map(pairs).collect();
        assert_eq!(all, covered);
        assert!(covering().len() <= 80, "{}", covering().len());
        assert!(pairwise(&product()).len() < product().len() / 10);
    }

    #[test]
    fn names_are_unique_and_every_situation_is_there() {
        let full = full();
        let names: BTreeSet<_> = full.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), full.len());
        for &situation in Situation::ALL {
            assert!(covering().iter().any(|cell| cell.situation == situation), "{situation}");
        }
        assert!(full.iter().all(Cell::is_valid));
    }
}

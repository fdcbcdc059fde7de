//! Values that are valid and probably not meant.

use super::{LossModel, Scenario};
use crate::units::show_percent;

/// A loss or a minimum effect from here on is probably a percentage without its sign.
const SUSPICIOUS: f64 = 0.5;

impl Scenario {
    /// What a person should look at again, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = Vec::new();
        let mut add = |warning: String| {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        };
        for path in self.conditions.iter().flat_map(|condition| &condition.experiment.paths) {
            for (key, loss) in [("loss", &path.loss), ("loss-up", &path.loss_up)] {
                let LossModel::Bernoulli(loss) = *loss else { continue };
                if loss >= SUSPICIOUS {
                    let all = if loss >= 1.0 {
                        "every packet"
                    } else {
                        &format!("{} of the packets", show_percent(loss))
                    };
                    add(format!("path {} loses {all} ({key}); {}", path.name, written(key, loss)));
                }
            }
        }
        if self.min_effect >= SUSPICIOUS {
            let percent = show_percent(self.min_effect);
            let hint = written("min-effect", self.min_effect);
            add(format!("every difference below {percent} counts as practically equal (min-effect); {hint}"));
        }
        warnings
    }
}

/// How the same digits are written as a percentage.
fn written(key: &str, value: f64) -> String {
    format!("if {value} % is meant, write `{key}={value}%`")
}

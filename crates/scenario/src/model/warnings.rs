//! Warnings about valid values that are probably not intended.

use anabranch_link::Loss;

use super::graph::Form;
use super::scenario::Scenario;
use crate::text::units::show_percent;

/// A loss or a minimum effect of at least this is probably a percentage without its sign.
const SUSPICIOUS: f64 = 0.5;

impl Scenario {
    /// Returns warnings for the user, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = Vec::new();
        let mut add = |warning: String| {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        };
        for experiment in self.conditions.iter().map(|condition| &condition.experiment) {
            let links: Vec<(&str, String, Loss)> = match experiment.graph.form {
                Form::Paths { .. } => {
                    let directions = experiment.paths().iter().flat_map(|path| {
                        let (data, acks) = (experiment.own_link(path), experiment.own_ack_link(path));
                        let name = format!("path {}", path.name);
                        [("loss", name.clone(), data.config.loss), ("loss-up", name, acks.config.loss)]
                    });
                    directions.collect()
                }
                Form::Graph => {
                    let links = experiment.graph.links.iter();
                    links.map(|link| ("loss", format!("link {}", link.name), link.config.loss)).collect()
                }
            };
            for (key, name, loss) in links {
                let Loss::Bernoulli(loss) = loss else { continue };
                if loss >= SUSPICIOUS {
                    let all = if loss >= 1.0 {
                        "every packet"
                    } else {
                        &format!("{} of the packets", show_percent(loss))
                    };
                    add(format!("{name} loses {all} ({key}); {}", written(key, loss)));
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

/// Returns the same digits written as a percentage.
fn written(key: &str, value: f64) -> String {
    format!("if {value} % is meant, write `{key}={value}%`")
}

#[cfg(test)]
mod tests {
    use crate::read::Document;

    fn warnings(text: &str) -> Vec<String> {
        Document::parse("test.toml", text, ".").unwrap().scenario().unwrap().warnings()
    }

    #[test]
    fn a_loss_that_is_probably_a_percentage_is_named_once_with_its_direction() {
        let path = |more: &str| format!("{{ rate = '8 Mbit/s', rtt = '20 ms', {more} }}");
        let traffic = "traffic = { size = '1 KB' }\n";
        let up = format!("path = [{}, {}]\n{traffic}", path("loss-up = 0.5"), path("loss = 0.49"));
        let hint = "path 1 loses 50% of the packets (loss-up); if 0.5 % is meant, write `loss-up=0.5%`";
        assert_eq!(warnings(&up), [hint]);
        // Two conditions have the same path.
        let twice = format!(
            "path = [{}]\n{traffic}[[condition]]\nname = 'a'\n[[condition]]\nname = 'b'",
            path("loss = 1")
        );
        assert_eq!(warnings(&twice), ["path 1 loses every packet (loss); if 1 % is meant, write `loss=1%`"]);
        let effect = format!("min-effect = 0.5\npath = [{}]\n{traffic}", path("loss = 0"));
        let sentence = "every difference below 50% counts as practically equal (min-effect); if 0.5 % is meant, write \
                        `min-effect=0.5%`";
        assert_eq!(warnings(&effect), [sentence]);
    }
}

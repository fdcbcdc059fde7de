//! The offset between the clocks of captures at both ends of a connection.

use anabranch_lab::capture::Viewpoint;

use super::{capture, inspect, reader};

/// Returns a capture with the times `nanos` later.
fn shifted(bytes: Vec<u8>, nanos: i64) -> Vec<u8> {
    let mut reader = reader("capture", bytes);
    let mut file = 0xa1b2_3c4d_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0]);
    let mut is_begun = false;
    while reader.advance().unwrap() {
        let frame = reader.frame().unwrap();
        if !is_begun {
            file.extend(frame.link_type.to_le_bytes());
            is_begun = true;
        }
        // Far from 1970, so that no time is below it.
        let time = (1_700_000_000_000_000_000 + frame.time.0).checked_add_signed(nanos).unwrap();
        let lengths = [frame.bytes.len() as u32, frame.original_len];
        let parts = [(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32, lengths[0], lengths[1]];
        parts.iter().for_each(|part| file.extend(part.to_le_bytes()));
        file.extend(frame.bytes);
    }
    file
}

const TWO: &str = "schedulers = ['linux']
    path = [{ rate = '20 Mbit/s', rtt = '20 ms', loss = '0.5%' }, { rate = '10 Mbit/s', rtt = '60 ms' }]
    traffic = { size = '2 MB', direction = 'DIRECTION' }";

#[test]
fn a_known_offset_is_found_and_corrected() {
    for direction in ["upload", "download"] {
        let text = TWO.replace("DIRECTION", direction);
        let [sender, receiver] =
            [Viewpoint::Sender, Viewpoint::Receiver].map(|end| shifted(capture(&text, end), 0));
        let alone = inspect(vec![reader("sender", sender.clone())]);
        for offset in [0.0, 1.5, -0.25, 86_400.0, 0.003] {
            let late = capture(&text, Viewpoint::Receiver);
            let moved = shifted(late, (offset * 1e9) as i64);
            for is_first in [false, true] {
                let (mine, other) = (reader("sender", sender.clone()), reader("receiver", moved.clone()));
                let inspection = inspect(if is_first { vec![other, mine] } else { vec![mine, other] });
                let clock = inspection.files[1].clock.as_ref().unwrap();
                let truth = if is_first { -offset } else { offset };
                let found = clock.ahead_s;
                // As far as the least delays go: half of 20 ms each, and the time of the shortest packets.
                assert!((found.value - truth).abs() < 0.000_2, "{direction} {offset}: {clock:?}");
                assert!(found.low <= truth && truth <= found.high, "{direction} {offset}: {clock:?}");
                assert!((0.019_9..0.020_4).contains(&(found.high - found.low)), "{clock:?}");
                assert_eq!((clock.than, inspection.files[0].clock.is_none()), (0, true));
                assert!(clock.packets > 100, "{clock:?}");
                let note = inspection.notes.iter().find(|note| note.starts_with("the clock of")).unwrap();
                assert!(note.contains("within 10."), "{note}");
                // The page is by the capture at the sender, and its times are in one clock.
                let (page, own) = (&inspection.connections[0], &alone.connections[0]);
                assert_eq!(
                    (inspection.connections.len(), &page.subflows[0].captured),
                    (1, &own.subflows[0].captured)
                );
                let [found, expected] = [page, own].map(|one| one.streams.clone().map(|stream| stream.fct_s));
                assert_eq!(found, expected);
                assert!(
                    page.start_s.abs() < 0.011 && (inspection.duration_s - alone.duration_s).abs() < 0.04
                );
            }
        }
        let twice = inspect(vec![reader("a", receiver.clone()), reader("b", receiver)]);
        assert!(twice.files.iter().all(|file| file.clock.is_none()), "both are at one end");
    }
}

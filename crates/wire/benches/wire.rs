//! The cost of one packet with 1460 bytes of payload: checksum, parsing, writing.

#![allow(missing_docs)] // criterion_group! makes a public function.

use std::hint::black_box;

use anabranch_stack::segment::{Address, DataAck, Dss, Flags, MappedDsn, Mapping, Segment, Timestamps};
use anabranch_stack::seq::{Dsn, Seq};
use anabranch_wire::{Checksum, Checksums, IpFields, checksum, emit, emit_header, parse};
use criterion::{Criterion, criterion_group, criterion_main};

fn benches(c: &mut Criterion) {
    let from = Address::new([10, 0, 0, 1].into(), 40_000);
    let to = Address::new([10, 0, 0, 2].into(), 80);
    let mut segment = Segment::new(from, to, Seq(1), Flags::ACK);
    segment.payload_len = 1460;
    segment.options.timestamps = Some(Timestamps { value: 1, echo: 2 });
    let mapping = Mapping { dsn: MappedDsn::Wide(Dsn(7)), ssn: 1, len: 1460, checksum: None };
    let data_ack = Some(DataAck::Wide(Dsn(9)));
    segment.options.dss = Some(Dss { data_ack, mapping: Some(mapping), data_fin: false });
    let payload = vec![0x5a; 1460];
    let mut packet = vec![0; 2000];
    let ip = IpFields::default();
    let len = emit(&segment, &ip, Checksum::Full, &mut packet, |place| place.copy_from_slice(&payload))
        .expect("space");

    c.bench_function("sum 1460 bytes", |b| b.iter(|| checksum::sum(black_box(&payload))));
    for (name, checksums) in [("parse, verify", Checksums::Verify), ("parse, trust", Checksums::Trust)] {
        c.bench_function(name, |b| b.iter(|| parse(black_box(&packet[..len]), checksums)));
    }
    let mut out = vec![0; 2000];
    c.bench_function("emit, copy and sum", |b| {
        b.iter(|| {
            let header = emit_header(black_box(&segment), &ip, &mut out).expect("space");
            let sum = checksum::copy_and_sum(&payload, &mut out[header.len()..]);
            header.finish_with_sum(&mut out, Checksum::Full, sum);
        });
    });
}

criterion_group!(wire, benches);
criterion_main!(wire);

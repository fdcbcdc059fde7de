//! The settings of a connection by name: one row for each, from which scenarios, the command line and
//! lists take names, meanings and ranges.

use anabranch_units::{Bytes, Duration};

use super::{
    Checksums, ConnectionConfig, DsnWidth, LossDetection, OpportunisticRetransmission, PathMtuDiscovery,
    ReceiveBuffer, Reinjection, SendBuffers,
};
use crate::parameter;
use crate::parameter::{Domain, Options, Parameter, Value};

const LONGEST: Duration = Duration::from_secs(24 * 3600);
const LEAST_BUFFER: Bytes = Bytes(1000);
const LARGEST_BUFFER: Bytes = Bytes(1 << 40);
const BUFFER: Domain = Domain::Buffer(LEAST_BUFFER, LARGEST_BUFFER);

/// Excludes the settings chosen by name (scheduler, congestion control, path manager) and the settings that
/// an application or a simulation makes for each connection.
#[rustfmt::skip]
impl Options for ConnectionConfig {
    const PARAMETERS: &'static [Parameter<ConnectionConfig>] = &[
        parameter!(ConnectionConfig, "mss", "most payload of a segment, bytes", integer 88, 65000, mss),
        parameter!(ConnectionConfig, "mtu", "MTU of every path, bytes", integer 168, 65535, mtu),
        parameter!(ConnectionConfig, "initial-window", "initial congestion window, segments", integer 1, 10000, initial_window),
        parameter!(ConnectionConfig, "initial-ssthresh", "initial slow-start threshold, segments, or `none`", open integer 2, 1 << 30, "none", initial_ssthresh),
        parameter!(ConnectionConfig, "byte-counting-limit", "most segments that an ACK adds in slow start (L of RFC 3465), or `none`", open integer 1, 1 << 30, "none", byte_counting_limit),
        parameter!(ConnectionConfig, "loss-detection", "loss detection", choice ["rack-tlp" => LossDetection::RackTlp, "duplicate-acks" => LossDetection::DuplicateAcks], loss_detection),
        parameter!(ConnectionConfig, "sack", "selective acknowledgements", bool, sack),
        parameter!(ConnectionConfig, "timestamps", "timestamps", bool, timestamps),
        parameter!(ConnectionConfig, "prr", "proportional rate reduction", bool, prr),
        parameter!(ConnectionConfig, "undo", "undo of spurious timeouts and recoveries", bool, undo),
        parameter!(ConnectionConfig, "limited-transmit", "limited transmit", bool, limited_transmit),
        parameter!(ConnectionConfig, "ecn", "explicit congestion notification", bool, ecn),
        parameter!(ConnectionConfig, "idle-restart", "initial window again after an idle time", bool, idle_restart),
        parameter!(ConnectionConfig, "pacing", "pacing", bool, pacing),
        parameter!(ConnectionConfig, "nagle", "the short end of the data waits while a short segment is unacknowledged", bool, nagle),
        parameter!(ConnectionConfig, "fill-window", "scheduler linux assigns data up to the window's edge, inside a segment", bool, fill_window),
        parameter!(ConnectionConfig, "tso-defer", "a packet of several segments waits for acknowledgements that let it grow", bool, tso_defer),
        parameter!(ConnectionConfig, "small-queues", "bytes in the queue of a subflow's device above which it gets no new data, or `none`; not with scheduler linux", open integer 1, 1 << 30, "none", small_queues),
        parameter!(ConnectionConfig, "whole-first-window", "the first window is a whole number of segments", bool, whole_first_window),
        parameter!(ConnectionConfig, "window-memory", "the window is the free memory of the receive buffer", bool, window_memory),
        parameter!(ConnectionConfig, "fin-with-data", "the FIN of a plain TCP is sent with the last data", bool, fin_with_data),
        parameter!(ConnectionConfig, "late-probes", "the reordering timer and tail loss probes are as late as in Linux", bool, late_probes),
        parameter!(ConnectionConfig, "repeat-keys", "every segment carries the keys until they are confirmed", bool, repeat_keys),
        parameter!(ConnectionConfig, "lisa", "slow start of joining subflows linked to the others'", bool, lisa),
        parameter!(ConnectionConfig, "rto.initial", "timeout before there is an RTT sample", time Duration::ZERO, LONGEST, rto.initial),
        parameter!(ConnectionConfig, "rto.min", "least timeout", time Duration::ZERO, LONGEST, rto.min),
        parameter!(ConnectionConfig, "rto.max", "greatest timeout", time Duration::ZERO, LONGEST, rto.max),
        parameter!(ConnectionConfig, "rto.backoff", "each timeout in a row doubles the next", bool, rto.backoff),
        parameter!(ConnectionConfig, "rto.max-timeouts", "timeouts in a row after which a subflow is dead", integer 1, 1000000, rto.max_timeouts),
        parameter!(ConnectionConfig, "rto.syn-retries", "how often a SYN is sent again", integer 0, 1000, rto.syn_retries),
        parameter!(ConnectionConfig, "mptcp-syns", "SYNs with MP_CAPABLE before the next is a plain one", integer 1, 1000, mptcp_syns),
        parameter!(ConnectionConfig, "ack.every", "segments after which an ACK is due", integer 1, 1000, ack.every),
        parameter!(ConnectionConfig, "ack.delay", "how long a single segment may wait for its ACK", time Duration::ZERO, LONGEST, ack.delay),
        parameter!(ConnectionConfig, "ack.quick", "segments at the start that are acknowledged at once", integer 0, 1000000, ack.quick),
        parameter!(ConnectionConfig, "ack.growth", "segments that raise the offered window are acknowledged at once", bool, ack.growth),
        parameter!(ConnectionConfig, "ack.push", "full segments that end a burst are acknowledged at once", bool, ack.push),
        parameter!(ConnectionConfig, "ack.drain", "the end of a burst is acknowledged on every subflow once the program has read all", bool, ack.drain),
        parameter!(@make ConnectionConfig, "receive-buffer",
            "receive buffer: a size, or `{ initial, max }` for autotuning", BUFFER,
            |config| match config.receive_buffer {
                ReceiveBuffer::Fixed(size) => Value::Size(size),
                ReceiveBuffer::Auto { initial, max } => Value::Growing(initial, max),
            },
            |config, value| match value {
                Value::Size(size) => config.receive_buffer = ReceiveBuffer::Fixed(size),
                Value::Growing(initial, max) => config.receive_buffer = ReceiveBuffer::Auto { initial, max },
                _ => {}
            }),
        parameter!(@make ConnectionConfig, "send-buffer",
            "bytes written and not yet acknowledged: a size, `{ initial, max }` for autotuning, or `none`: as `subflow-send-buffer`",
            Domain::OpenBuffer(LEAST_BUFFER, LARGEST_BUFFER, "none"),
            |config| match config.send_buffer_start {
                _ if config.kernel_buffers => Value::Open,
                None => Value::Size(config.send_buffer),
                Some(initial) => Value::Growing(initial, config.send_buffer),
            },
            |config, value| {
                config.kernel_buffers = value == Value::Open;
                match value {
                    Value::Size(size) => (config.send_buffer, config.send_buffer_start) = (size, None),
                    Value::Growing(initial, max) => {
                        (config.send_buffer, config.send_buffer_start) = (max, Some(initial));
                    }
                    _ => {}
                }
            }),
        parameter!(@make ConnectionConfig, "subflow-send-buffer",
            "send buffer of each subflow, their sum the connection's: a size (SO_SNDBUF), `{ initial, max }` or `none`",
            Domain::OpenBuffer(LEAST_BUFFER, LARGEST_BUFFER, "none"),
            |config| match config.send_buffers {
                None => Value::Open,
                Some(SendBuffers::Fixed(size)) => Value::Size(size),
                Some(SendBuffers::Auto { initial, max }) => Value::Growing(initial, max),
            },
            |config, value| match value {
                Value::Open => config.send_buffers = None,
                Value::Size(size) => config.send_buffers = Some(SendBuffers::Fixed(size)),
                Value::Growing(initial, max) => config.send_buffers = Some(SendBuffers::Auto { initial, max }),
                _ => {}
            }),
        parameter!(ConnectionConfig, "user-timeout", "unacknowledged time after which a connection is aborted", time Duration::ZERO, LONGEST, user_timeout),
        parameter!(ConnectionConfig, "keepalive", "silence after which an idle peer is probed, or `none`", open time Duration::ZERO, LONGEST, "none", keepalive),
        parameter!(ConnectionConfig, "time-wait", "how long a closed subflow is remembered", time Duration::ZERO, LONGEST, time_wait),
        parameter!(ConnectionConfig, "close-timeout", "how long a connection lives without a subflow", time Duration::ZERO, LONGEST, close_timeout),
        parameter!(ConnectionConfig, "max-subflows", "most subflows at once", integer 1, 32, max_subflows),
        parameter!(ConnectionConfig, "race", "time after which the next path tries to open the connection too, or `off`", open time Duration::ZERO, LONGEST, "off", race),
        parameter!(ConnectionConfig, "opportunistic", "opportunistic retransmission", choice ["off" => OpportunisticRetransmission::Off, "retransmit" => OpportunisticRetransmission::Retransmit, "retransmit-and-penalise" => OpportunisticRetransmission::RetransmitAndPenalise], opportunistic),
        parameter!(ConnectionConfig, "reinjection", "reinjection", choice ["on-death" => Reinjection::OnDeath, "on-timeout" => Reinjection::OnTimeout], reinjection),
        parameter!(ConnectionConfig, "path-mtu", "how a smaller MTU on the way is found", choice ["off" => PathMtuDiscovery::Off, "icmp" => PathMtuDiscovery::Icmp, "probe" => PathMtuDiscovery::Probe], path_mtu),
        parameter!(ConnectionConfig, "dsn-width", "width of data sequence numbers", choice ["wide" => DsnWidth::Wide, "narrow" => DsnWidth::Narrow], dsn_width),
        parameter!(ConnectionConfig, "checksums", "DSS checksums", choice ["refused" => Checksums::Refused, "if-asked" => Checksums::IfAsked, "required" => Checksums::Required], checksums),
    ];
}

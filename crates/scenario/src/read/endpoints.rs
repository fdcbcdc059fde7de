//! Reads the addresses of the server, and the endpoints and limits of both hosts.

use anabranch_stack::path_manager::EndpointRole;
use anabranch_units::{Duration, Time};

use super::path::path_position;
use crate::model::{Endpoints, Path, ServerAddress, Signal, SubflowLimits};
use crate::text::keys::{Keys, rows};
use crate::text::reader::{Reader, list};
use crate::text::source::Problem;
use crate::text::tree::Node;

rows! {
    /// The keys of `limits`.
    LIMITS_ROWS, LIMITS_KEYS {
        "subflows": Whole(0, 8), "most subflows of a connection besides the first; default 8";
        "add-addr-accepted": Whole(0, 8), "most announced addresses that are taken up; default 8";
    }
}
const LIMITS: Keys = Keys::new("limits", &[LIMITS_ROWS]);

rows! {
    /// The keys of `[client]`.
    CLIENT_ROWS, CLIENT_KEYS {
        "limits": Table(&LIMITS), "the client's limits, as in `ip mptcp limits`";
    }
}
pub(crate) const CLIENT: Keys = Keys::new("client", &[CLIENT_ROWS]);

rows! {
    /// The keys of `[server]`.
    SERVER_ROWS, SERVER_KEYS {
        "limits": Table(&LIMITS), "the server's limits, as in `ip mptcp limits`";
        "address": List(&Table(&ADDRESS)), "its addresses; default one, to which all paths lead";
    }
}
pub(crate) const SERVER: Keys = Keys::new("server", &[SERVER_ROWS]);

rows! {
    /// The keys of a `[[server.address]]`.
    ADDRESS_ROWS, ADDRESS_KEYS {
        "name": Name, "its name; default its number";
        "paths": List(&Name), "the paths that lead to it, by name or number; default all";
        "signal": Bool, "whether clients of another address are informed of it (ADD_ADDR); default true";
        "backup": Bool, "whether subflows to it are backups; default false";
        "removed-at": Time, "time at which the server withdraws it (REMOVE_ADDR)";
        "added-at": Time, "time at which the server has it again";
    }
}
const ADDRESS: Keys = Keys::new("server-address", &[ADDRESS_ROWS]);

/// The values of the key `endpoint` of a path.
pub(super) const ROLES: [&str; 3] = ["none", "subflow", "fullmesh"];

/// Reads the key `endpoint` of a path.
pub(super) fn role(node: &Node) -> Result<EndpointRole, Problem> {
    const MEANT: [EndpointRole; 3] = [EndpointRole::None, EndpointRole::Subflow, EndpointRole::FullMesh];
    Ok(MEANT[node.choice("endpoint", &ROLES)?])
}

/// Returns the name of a role.
pub(crate) fn role_name(role: EndpointRole) -> &'static str {
    match role {
        EndpointRole::None => ROLES[0],
        EndpointRole::Subflow => ROLES[1],
        EndpointRole::FullMesh => ROLES[2],
        EndpointRole::Signal => "signal",
    }
}

/// The most addresses of a server: Linux has at most eight endpoints.
const MOST: usize = 8;

/// Reads the endpoints of an experiment between one client and one server with these paths, which have these keys
/// `endpoint`; none if the scenario has no key of them.
pub(super) fn read(
    reader: &Reader<'_>,
    paths: &[Path],
    is_graph: bool,
) -> Result<Option<Endpoints>, Problem> {
    let (client, server) = (reader.get("client"), reader.get("server"));
    if let (Some(node), true) = (client.or(server), is_graph) {
        return Err(Problem::at(
            &node.span,
            "a network of nodes and links has no addresses and limits of hosts",
        )
        .help("describe it by `[[path]]`, or remove this table"));
    }
    if client.or(server).is_none() && paths.iter().all(|path| path.endpoint.is_none()) {
        return Ok(None);
    }
    let limits = |table: &Reader<'_>| table.optional("limits", limits).map(Option::unwrap_or_default);
    let client = client.map(|node| Reader::of(node, "[client]", CLIENT_KEYS)).transpose()?;
    let table = server.map(|node| Reader::of(node, "[server]", SERVER_KEYS)).transpose()?;
    let addresses = table.as_ref().and_then(|table| table.get("address"));
    let servers = match addresses {
        Some(node) => addresses_of(node, paths)?,
        None => vec![ServerAddress {
            name: "1".to_owned(),
            paths: (0..paths.len()).collect(),
            signal: true,
            backup: false,
            signals: Vec::new(),
        }],
    };
    if let (Some(path), Some(node)) =
        ((0..paths.len()).find(|path| !servers.iter().any(|own| own.paths.contains(path))), addresses)
    {
        let name = &paths[path].name;
        return Err(Problem::at(&node.span, format!("path `{name}` leads to no address of the server"))
            .help(format!("add `{name}` to the `paths` of an address, or remove that path")));
    }
    Ok(Some(Endpoints {
        servers,
        roles: paths.iter().map(|path| path.endpoint.unwrap_or_default()).collect(),
        client: client.as_ref().map(limits).transpose()?.unwrap_or_default(),
        server: table.as_ref().map(limits).transpose()?.unwrap_or_default(),
    }))
}

fn limits(node: &Node) -> Result<SubflowLimits, Problem> {
    let table = Reader::of(node, "limits", LIMITS_KEYS)?;
    let value = |key: &str| {
        let most = SubflowLimits::MOST;
        let read = |node: &Node| Ok(node.integer(0, i64::from(most))? as u8);
        table.optional(key, read).map(|value| value.unwrap_or(most))
    };
    Ok(SubflowLimits { subflows: value("subflows")?, add_addr_accepted: value("add-addr-accepted")? })
}

fn addresses_of(node: &Node, paths: &[Path]) -> Result<Vec<ServerAddress>, Problem> {
    let nodes = node.array().map_err(|problem| problem.help("write each address as `[[server.address]]`"))?;
    if nodes.is_empty() || nodes.len() > MOST {
        return Err(Problem::at(&node.span, format!("the server has {} addresses", nodes.len()))
            .help(format!("give from 1 to {MOST}, each as a `[[server.address]]`")));
    }
    let mut all: Vec<ServerAddress> = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let address = address(node, index, paths)?;
        if let Some(other) = all.iter().position(|other| other.name == address.name) {
            let both = format!("addresses {} and {} of the server are both called", other + 1, index + 1);
            return Err(Problem::at(&node.span, format!("{both} `{}`", address.name))
                .help("give each address a name of its own, and list all of its paths there"));
        }
        all.push(address);
    }
    Ok(all)
}

fn address(node: &Node, index: usize, paths: &[Path]) -> Result<ServerAddress, Problem> {
    let table = Reader::of(node, "an address of the server", ADDRESS_KEYS)?;
    let mut leading: Vec<usize> = Vec::new();
    match table.get("paths") {
        None => leading.extend(0..paths.len()),
        Some(node) => {
            for node in node.array()? {
                let path = path_position(node, paths)?;
                if leading.contains(&path) {
                    let name = &paths[path].name;
                    return Err(Problem::at(&node.span, format!("path `{name}` is named twice"))
                        .help("name each path once; without any the address cannot be reached"));
                }
                leading.push(path);
            }
        }
    }
    let (removed, added) =
        (table.optional("removed-at", Node::delay)?, table.optional("added-at", Node::delay)?);
    let at = |span: Duration, up| Signal { at: Time::ZERO + span, up };
    let signals = match (removed, added, table.get("added-at")) {
        (Some(removed), Some(added), Some(node)) if added <= removed => {
            return Err(Problem::at(
                &node.span,
                format!("the address is added at {added} but removed at {removed}"),
            )
            .help("give an `added-at` after `removed-at`"));
        }
        (None, Some(_), Some(node)) => {
            return Err(Problem::at(&node.span, "an address that is never removed is not added")
                .help("add `removed-at`, such as \"0 s\" for an address that is not there at first"));
        }
        (removed, added, _) => {
            removed.map(|span| at(span, false)).into_iter().chain(added.map(|span| at(span, true))).collect()
        }
    };
    Ok(ServerAddress {
        name: table.optional("name", Node::name)?.unwrap_or_else(|| (index + 1).to_string()),
        paths: leading,
        signal: table.optional("signal", Node::boolean)?.unwrap_or(true),
        backup: table.optional("backup", Node::boolean)?.unwrap_or(false),
        signals,
    })
}

/// Returns the canonical form of the endpoints, by key.
pub(crate) fn canonical(endpoints: &Endpoints) -> Vec<(&'static str, String)> {
    let Endpoints { servers, roles, client, server } = endpoints;
    let mut all = Vec::new();
    for ServerAddress { name: _, paths, signal, backup, signals } in servers {
        all.push(("server.address", paths.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")));
        all.push(("server.address.signal", signal.to_string()));
        all.push(("server.address.backup", backup.to_string()));
        for Signal { at, up } in signals {
            all.push(("server.address.change", format!("{} ns {}", at.0, if *up { "up" } else { "down" })));
        }
    }
    all.push(("endpoints", list(&roles.iter().map(|role| role_name(*role)).collect::<Vec<_>>())));
    for (key, SubflowLimits { subflows, add_addr_accepted }) in
        [("client.limits", client), ("server.limits", server)]
    {
        all.push((key, format!("{subflows} {add_addr_accepted}")));
    }
    all
}

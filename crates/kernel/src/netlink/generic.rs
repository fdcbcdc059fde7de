//! Generic netlink: families by name. Numbers are from `include/uapi/linux/genetlink.h`.

use super::attributes::{Writer, each, text_of, u16_of, u32_of};
use super::{Answer, Netlink};
use crate::error::KernelError;

/// `NETLINK_GENERIC`.
pub(crate) const PROTOCOL: i32 = 16;
/// The length of the header of a generic message (`GENL_HDRLEN`).
const HEADER: usize = 4;
/// The family that lists families (`GENL_ID_CTRL`).
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const MULTICAST_GROUPS: u16 = 7;
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Family {
    pub id: u16,
    /// The multicast groups: names and numbers.
    pub groups: Vec<(String, u32)>,
}

/// Returns a request of a family: its header and `attributes`.
pub(crate) fn request(command: u8, version: u8, attributes: &[u8]) -> Vec<u8> {
    let mut payload = vec![command, version, 0, 0];
    payload.extend_from_slice(attributes);
    payload
}

/// Returns the command and the attributes of a generic message.
pub(crate) fn parts(payload: &[u8]) -> Result<(u8, &[u8]), KernelError> {
    match payload.split_at_checked(HEADER) {
        Some((header, attributes)) => Ok((header[0], attributes)),
        None => Err(KernelError::Malformed("a generic message without a header".to_owned())),
    }
}

/// Returns the family with this name; none if this kernel lacks it.
pub(crate) fn find(netlink: &mut Netlink, name: &str) -> Result<Option<Family>, KernelError> {
    let mut attributes = Writer::default();
    attributes.put(FAMILY_NAME, &[name.as_bytes(), &[0]].concat());
    let payload = request(GET_FAMILY, 2, attributes.bytes());
    let mut family = Family::default();
    let found = netlink.request("look for a netlink family", CONTROL, Answer::One, &payload, |payload| {
        family = parse(parts(payload)?.1)?;
        Ok(())
    });
    match found {
        Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
        other => other.map(|()| Some(family)),
    }
}

pub(crate) fn parse(attributes: &[u8]) -> Result<Family, KernelError> {
    let mut family = Family::default();
    each(attributes, |kind, value| {
        match kind {
            FAMILY_ID => family.id = u16_of(value)?,
            MULTICAST_GROUPS => each(value, |_, group| {
                let (mut name, mut id) = (String::new(), 0);
                each(group, |kind, value| {
                    match kind {
                        GROUP_NAME => name = text_of(value),
                        GROUP_ID => id = u32_of(value)?,
                        _ => {}
                    }
                    Ok(())
                })?;
                family.groups.push((name, id));
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(family)
}

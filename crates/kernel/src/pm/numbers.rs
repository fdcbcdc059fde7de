//! The numbers of the family's commands, attributes and events.

pub(crate) const VERSION: u8 = 1;

pub(crate) mod command {
    pub(crate) const ADD_ADDR: u8 = 1;
    pub(crate) const DEL_ADDR: u8 = 2;
    pub(crate) const GET_ADDR: u8 = 3;
    pub(crate) const FLUSH_ADDRS: u8 = 4;
    pub(crate) const SET_LIMITS: u8 = 5;
    pub(crate) const GET_LIMITS: u8 = 6;
    pub(crate) const SET_FLAGS: u8 = 7;
    pub(crate) const ANNOUNCE: u8 = 8;
    pub(crate) const REMOVE: u8 = 9;
    pub(crate) const SUBFLOW_CREATE: u8 = 10;
    pub(crate) const SUBFLOW_DESTROY: u8 = 11;
}

pub(crate) mod attribute {
    pub(crate) const ADDR: u16 = 1;
    pub(crate) const RCV_ADD_ADDRS: u16 = 2;
    pub(crate) const SUBFLOWS: u16 = 3;
    pub(crate) const TOKEN: u16 = 4;
    pub(crate) const LOC_ID: u16 = 5;
    pub(crate) const ADDR_REMOTE: u16 = 6;
}

/// The attributes of an address.
pub(crate) mod address {
    pub(crate) const FAMILY: u16 = 1;
    pub(crate) const ID: u16 = 2;
    pub(crate) const ADDR4: u16 = 3;
    pub(crate) const ADDR6: u16 = 4;
    pub(crate) const PORT: u16 = 5;
    pub(crate) const FLAGS: u16 = 6;
    pub(crate) const IF_IDX: u16 = 7;
}

pub(crate) mod event {
    pub(crate) const CREATED: u8 = 1;
    pub(crate) const ESTABLISHED: u8 = 2;
    pub(crate) const CLOSED: u8 = 3;
    pub(crate) const ANNOUNCED: u8 = 6;
    pub(crate) const REMOVED: u8 = 7;
    pub(crate) const SUB_ESTABLISHED: u8 = 10;
    pub(crate) const SUB_CLOSED: u8 = 11;
    pub(crate) const SUB_PRIORITY: u8 = 13;
    pub(crate) const LISTENER_CREATED: u8 = 15;
    pub(crate) const LISTENER_CLOSED: u8 = 16;
}

pub(crate) mod event_attribute {
    pub(crate) const TOKEN: u16 = 1;
    pub(crate) const LOC_ID: u16 = 3;
    pub(crate) const REM_ID: u16 = 4;
    pub(crate) const SADDR4: u16 = 5;
    pub(crate) const SADDR6: u16 = 6;
    pub(crate) const DADDR4: u16 = 7;
    pub(crate) const DADDR6: u16 = 8;
    pub(crate) const SPORT: u16 = 9;
    pub(crate) const DPORT: u16 = 10;
    pub(crate) const BACKUP: u16 = 11;
    pub(crate) const ERROR: u16 = 12;
    pub(crate) const FLAGS: u16 = 13;
    pub(crate) const IF_IDX: u16 = 15;
    pub(crate) const RESET_REASON: u16 = 16;
    pub(crate) const SERVER_SIDE: u16 = 18;
}

//! Slots: how a Cluster divides the keys among its primaries.

/// Number of slots of every Cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// A slot of a Cluster, below [`SLOTS`].
pub type Slot = u16;

/// The slot of a key: that of its hash tag, if it has one.
pub(crate) fn slot_of(key: &[u8]) -> Slot {
    crc16(tag_of(key)) % SLOTS
}

/// A key in this slot.
pub(crate) fn key_in(slot: Slot, prefix: &str) -> String {
    // One in 16,384 numbers is in it.
    let mut number = 0_u32;
    loop {
        let key = format!("{prefix}{{{number}}}");
        if slot_of(key.as_bytes()) == slot {
            return key;
        }
        number += 1;
    }
}

/// The text between the first `{` and the next `}`, unless that is empty; else the whole key.
fn tag_of(key: &[u8]) -> &[u8] {
    let tag = || {
        let begin = key.iter().position(|byte| *byte == b'{')? + 1;
        let length = key[begin..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &key[begin..begin + length])
    };
    tag().unwrap_or(key)
}

const CRC_TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// CRC-16/XMODEM, as the specification of Redis Cluster wants it.
pub(crate) fn crc16(bytes: &[u8]) -> u16 {
    let step = |crc: u16, byte: &u8| crc << 8 ^ CRC_TABLE[usize::from((crc >> 8) as u8 ^ byte)];
    bytes.iter().fold(0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // By CLUSTER KEYSLOT of Redis 7.0.
        for (key, slot) in [
            ("123456789", 12739),
            ("foo", 12182),
            ("{foo}bar", 12182),
            ("dueq:{orders:0}:meta", slot_of(b"orders:0")),
            ("a{}b", slot_of(b"a{}b")),
            ("", 0),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_ne!(slot_of(b"a{}b"), slot_of(b"a{}c"));
    }

    #[test]
    fn every_slot_has_a_key() {
        for slot in [0, 1, 8_191, SLOTS - 1] {
            let key = key_in(slot, "dueq:");
            assert!(key.starts_with("dueq:{") && slot_of(key.as_bytes()) == slot);
        }
    }
}

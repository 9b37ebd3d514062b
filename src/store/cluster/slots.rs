//! Slots: how a Cluster divides the keys among its primaries.

/// Number of slots of every Cluster.
pub(in crate::store) const SLOTS: u16 = 16_384;

/// A slot of a Cluster, below [`SLOTS`].
pub(crate) type Slot = u16;

/// The slot of a key: that of its hash tag, if it has one.
pub(in crate::store) fn slot_of(key: &[u8]) -> Slot {
    crc16(tag_of(key)) % SLOTS
}

/// A key in this slot.
pub(in crate::store) fn key_in(slot: Slot, prefix: &str) -> String {
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

/// What stands between the first `{` and the next `}`, unless that is nothing; else the whole key.
fn tag_of(key: &[u8]) -> &[u8] {
    let tag = || {
        let begin = key.iter().position(|byte| *byte == b'{')? + 1;
        let length = key[begin..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &key[begin..begin + length])
    };
    tag().unwrap_or(key)
}

/// CRC-16/XMODEM, as the specification of Redis Cluster wants it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
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

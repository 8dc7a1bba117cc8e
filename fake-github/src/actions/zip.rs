//! Zip archives without compression: all that artifacts of this size need, and every tool opens them.

use std::collections::BTreeMap;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;

/// 1980-01-01, the earliest date the format knows: equal files give equal archives.
const DATE: u16 = 0x21;

/// Files by their path in the archive.
pub(super) fn write(files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>, String> {
    let too_large = |_| "the artifact is too large for a zip archive without extensions (4 GiB)".to_owned();
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for (name, bytes) in files {
        let offset = u32::try_from(out.len()).map_err(too_large)?;
        let size = u32::try_from(bytes.len()).map_err(too_large)?;
        let name_len =
            u16::try_from(name.len()).map_err(|_| format!("the path {name} is too long for a zip archive"))?;
        let mut shared = Vec::new();
        // Version 2.0, UTF-8 names, stored.
        for word in [20_u16, 0x0800, 0, 0, DATE] {
            shared.extend(word.to_le_bytes());
        }
        for word in [crc32(bytes), size, size] {
            shared.extend(word.to_le_bytes());
        }
        shared.extend(name_len.to_le_bytes());
        shared.extend(0_u16.to_le_bytes());

        out.extend(LOCAL.to_le_bytes());
        out.extend(&shared);
        out.extend(name.as_bytes());
        out.extend(bytes);

        directory.extend(CENTRAL.to_le_bytes());
        directory.extend(20_u16.to_le_bytes());
        directory.extend(&shared);
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let count = u16::try_from(files.len()).map_err(|_| "more than 65,535 files in one artifact".to_owned())?;
    let start = u32::try_from(out.len()).map_err(too_large)?;
    let length = u32::try_from(directory.len()).map_err(too_large)?;
    out.extend(directory);
    out.extend(END.to_le_bytes());
    out.extend([0; 4]);
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(length.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend(0_u16.to_le_bytes());
    Ok(out)
}

/// The files of an archive that `write` made.
pub(super) fn read(archive: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut files = BTreeMap::new();
    let mut at = 0;
    while number(archive, at, 4)? == LOCAL as usize {
        let crc = number(archive, at + 14, 4)?;
        let size = number(archive, at + 18, 4)?;
        let name_len = number(archive, at + 26, 2)?;
        let data = at + 30 + name_len + number(archive, at + 28, 2)?;
        let name = archive.get(at + 30..at + 30 + name_len).ok_or("the archive is cut off")?;
        let bytes = archive.get(data..data + size).ok_or("the archive is cut off")?;
        let name = String::from_utf8(name.to_vec()).map_err(|_| "a path in the archive is not UTF-8")?;
        if crc32(bytes) as usize != crc {
            return Err(format!("the checksum of {name} is wrong"));
        }
        files.insert(name, bytes.to_vec());
        at = data + size;
    }
    Ok(files)
}

fn number(bytes: &[u8], at: usize, width: usize) -> Result<usize, String> {
    let slice = bytes.get(at..at + width).ok_or("the archive is cut off")?;
    Ok(slice.iter().rev().fold(0, |n, byte| (n << 8) | usize::from(*byte)))
}

fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    !bytes.iter().fold(!0, |crc, byte| (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize])
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut value = i as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[i] = value;
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let files = BTreeMap::from([("a.txt".to_owned(), b"hello".to_vec()), ("d/ü".to_owned(), Vec::new())]);
        let archive = write(&files).unwrap();
        assert_eq!(read(&archive).unwrap(), files);
        assert_eq!(read(&write(&BTreeMap::new()).unwrap()).unwrap(), BTreeMap::new());
    }

    #[test]
    fn damage_is_noticed() {
        let mut archive = write(&BTreeMap::from([("a".to_owned(), b"hello".to_vec())])).unwrap();
        assert!(read(&archive[..33]).is_err());
        archive[32] ^= 1;
        assert!(read(&archive).unwrap_err().contains("checksum"));
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}

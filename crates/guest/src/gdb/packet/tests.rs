use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// All items of a stream that comes in pieces of these lengths, over and over.
fn items(stream: &[u8], pieces: &[usize]) -> Vec<(Item, Vec<u8>)> {
    let mut decoder = Decoder::new();
    let mut found = Vec::new();
    let mut rest = stream;
    let mut lengths = pieces.iter().copied().cycle();
    while !rest.is_empty() {
        let len = lengths.next().unwrap_or(1).clamp(1, rest.len());
        let (mut piece, after) = rest.split_at(len);
        rest = after;
        while let Some(item) = decoder.step(&mut piece) {
            let content = match item {
                Item::Packet => decoder.packet().to_vec(),
                _ => Vec::new(),
            };
            found.push((item, content));
        }
        assert!(decoder.content.capacity() <= 2 * MAX_PACKET);
    }
    found
}

fn packets(stream: &[u8]) -> Vec<Vec<u8>> {
    let packets = items(stream, &[stream.len()]).into_iter();
    packets
        .filter(|(item, _)| *item == Item::Packet)
        .map(|(_, content)| content)
        .collect()
}

fn packet(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(data, &mut out);
    out
}

#[test]
fn the_examples_of_the_protocol() {
    assert_eq!(packet(b"OK"), b"$OK#9a");
    assert_eq!(packet(b""), b"$#00");
    assert_eq!(packet(b"a}b"), b"$a}\x5db#9d");
    // "0* " is four zeros: one, and three more.
    assert_eq!(packets(b"$0* #7a"), [b"0000"]);
    // An escaped character is repeated as what it stands for.
    assert_eq!(packets(b"$}\x03*\"#cc"), [b"######"]);
    assert_eq!(
        items(b"+$OK#9a-", &[8]),
        [
            (Item::Ack, vec![]),
            (Item::Packet, b"OK".to_vec()),
            (Item::Nack, vec![])
        ]
    );
}

#[test]
fn finds_packets_again_after_damage() {
    for (stream, what) in [
        (&b"$OK#9b$OK#9a"[..], "a wrong sum"),
        (b"$OK#zz$OK#9a", "no sum"),
        (b"$OK#9$OK#9a", "half a sum"),
        (b"$m0123$OK#9a", "no end"),
        (b"$*~#a8$OK#9a", "a repeat of nothing"),
        (b"$0*\x1d#77$OK#9a", "a count of nothing"),
        (b"$a}$OK#9a", "an escape of nothing"),
    ] {
        let found = items(stream, &[1]);
        assert_eq!(found[0].0, Item::Damaged, "{what}: {found:?}");
        assert_eq!(packets(stream), [b"OK"], "{what}");
    }
    assert_eq!(packets(b"garbage# \x00\xff$OK#9a"), [b"OK"]);
    assert_eq!(packets(b"%Stop:T05#cc$OK#9a"), [b"OK"], "a notification");
}

#[test]
fn a_packet_without_end_takes_bounded_memory() {
    // Each pair of bytes asks for 97 more.
    let mut stream = b"$0".to_vec();
    stream.extend(b"*~".repeat(MAX_PACKET / 8));
    stream.extend(b"#00$OK#9a");
    let found = items(&stream, &[4096]);
    assert_eq!(found[0].0, Item::Damaged);
    assert_eq!(found[1], (Item::Packet, b"OK".to_vec()));
    let longest = vec![b'x'; MAX_PACKET];
    assert_eq!(packets(&packet(&longest)), [longest]);
}

#[test]
fn hexadecimal_is_strict() {
    let mut bytes = [0; 2];
    assert!(decode_hex(b"0aFf", &mut bytes));
    assert_eq!(bytes, [0x0a, 0xff]);
    for bad in [&b""[..], b"0", b"0a0", b"0a0b0c", b"0ag0", b"+a0b", b"0xff"] {
        assert!(!decode_hex(bad, &mut bytes), "{bad:?}");
    }
    assert_eq!(number(b"ffffFFFFffffffff"), Some(u64::MAX));
    assert_eq!(number(b"000000000000000000001"), Some(1));
    for bad in [&b""[..], b"10000000000000000", b"-1", b" 1", b"1;", b"0x1"] {
        assert_eq!(number(bad), None, "{bad:?}");
    }
}

proptest! {
    #[test]
    fn what_is_encoded_comes_back(
        contents in vec(vec(any::<u8>(), 0..200), 1..8),
        pieces in vec(1_usize..40, 1..5),
    ) {
        let stream: Vec<u8> = contents.iter().flat_map(|data| packet(data)).collect();
        let found = items(&stream, &pieces);
        let expected: Vec<_> = contents.into_iter().map(|data| (Item::Packet, data)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn pieces_do_not_matter(
        stream in vec(prop_oneof![any::<u8>(), proptest::sample::select(b"$#*}+-%0aOK9".to_vec())], 0..400),
        pieces in vec(1_usize..40, 1..5),
    ) {
        prop_assert_eq!(items(&stream, &pieces), items(&stream, &[stream.len()]));
    }

    #[test]
    fn a_sound_packet_is_found_after_anything(
        garbage in vec(any::<u8>(), 0..200),
        data in vec(any::<u8>(), 0..50),
    ) {
        // Garbage may begin a packet, which the first sound one then ends.
        let mut stream = garbage;
        stream.extend(packet(&data));
        stream.extend(packet(&data));
        let found = packets(&stream);
        prop_assert_eq!(found.last(), Some(&data));
    }

    #[test]
    fn hexadecimal_comes_back(bytes in vec(any::<u8>(), 0..100)) {
        let mut text = Vec::new();
        encode_hex(&bytes, &mut text);
        let mut back = vec![0; bytes.len()];
        prop_assert!(decode_hex(&text, &mut back));
        prop_assert_eq!(back, bytes);
    }
}

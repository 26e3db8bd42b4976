"""Vectors as their RFCs print them; `make.py` computes every result once more before it writes the files."""

from __future__ import annotations

X25519 = {
    "provenance": "RFC 7748, section 6.1: the key pairs of Alice and Bob and the secret they share.",
    "cases": [
        {
            "private": "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
            "public": "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
            "other_public": "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
            "shared": "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742",
        },
        {
            "private": "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
            "public": "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
            "other_public": "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
            "shared": "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742",
        },
    ],
}

ED25519 = {
    "provenance": "RFC 8032, section 7.1, TEST 1, TEST 2 and TEST 3.",
    "cases": [
        {
            "private": "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "public": "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "message": "",
            "signature": "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
            "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        },
        {
            "private": "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "public": "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "message": "72",
            "signature": "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        },
        {
            "private": "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "public": "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "message": "af82",
            "signature": "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
            "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        },
    ],
}

HKDF = {
    "provenance": "RFC 5869, appendix A.1, A.2 and A.3: HKDF with SHA-256.",
    "cases": [
        {
            "secret": "0b" * 22,
            "salt": bytes(range(13)).hex(),
            "info": bytes(range(0xF0, 0xFA)).hex(),
            "length": 42,
            "derived": "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        },
        {
            "secret": bytes(range(0x50)).hex(),
            "salt": bytes(range(0x60, 0xB0)).hex(),
            "info": bytes(range(0xB0, 0x100)).hex(),
            "length": 82,
            "derived": "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
            "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
            "cc30c58179ec3e87c14c01d5c1f3434f1d87",
        },
        {
            "secret": "0b" * 22,
            "salt": "",
            "info": "",
            "length": 42,
            "derived": "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        },
    ],
}

CHACHA20 = {
    "provenance": "RFC 8439, appendix A.1, test vectors 1 to 4: those with the nonce of zeros, as in masks.",
    "cases": [
        {
            "key": "00" * 32,
            "counter": 0,
            "block": "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
            "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
        },
        {
            "key": "00" * 32,
            "counter": 1,
            "block": "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
            "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
        },
        {
            "key": "00" * 31 + "01",
            "counter": 1,
            "block": "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
            "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
        },
        {
            "key": "00ff" + "00" * 30,
            "counter": 2,
            "block": "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
            "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
        },
    ],
}

AEAD = {
    "provenance": "RFC 8439, section 2.8.2: encryption and tag of AEAD_CHACHA20_POLY1305.",
    "cases": [
        {
            "key": bytes(range(0x80, 0xA0)).hex(),
            "nonce": "070000004041424344454647",
            "beside": "50515253c0c1c2c3c4c5c6c7",
            "content": b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
            b"sunscreen would be it.".hex(),
            "box": "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b"
            "1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
            "3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691",
        }
    ],
}

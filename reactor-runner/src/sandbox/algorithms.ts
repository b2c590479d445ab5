/** The crypto algorithms of reactor code. The guest lists them, the host allows only these. */
export const digests: readonly string[] = [
  'md5',
  'sha1',
  'sha224',
  'sha256',
  'sha384',
  'sha512',
  'sha512-256',
  'sha3-256',
  'sha3-384',
  'sha3-512',
  'ripemd160',
];

export const ciphers: readonly string[] = [
  ...[128, 192, 256].flatMap((bits) => ['cbc', 'ctr', 'ecb', 'gcm'].map((mode) => `aes-${bits}-${mode}`)),
  'des-ede3-cbc',
  'chacha20-poly1305',
];

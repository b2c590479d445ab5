/**
 * URLs that lead to private places in all the spellings that we know. No request of reactor code, of a webhook or of a
 * proxy may reach one of them (rules.md §10).
 */
export const forbiddenUrls = [
  'https://127.0.0.1/',
  'https://2130706433/',
  'https://0177.0.0.1/',
  'https://0x7f.1/',
  'https://127.1/',
  'https://0/',
  'https://[::1]/',
  'https://[::ffff:127.0.0.1]/',
  'https://[::ffff:7f00:1]/',
  'https://[64:ff9b::7f00:1]/',
  'https://169.254.169.254/latest/meta-data',
  'https://10.0.0.1/',
  'https://[fd00::1]/',
  'https://localhost/',
  'https://１２７.０.０.１/',
] as const;

/** URLs that are refused whatever their address is, with the code of libs/egress. */
export const unfitUrls = [
  ['http://93.184.216.34/', 'refused-scheme'],
  ['https://93.184.216.34:6379/', 'refused-address'],
  ['file:///etc/passwd', 'refused-scheme'],
  ['ftp://example.com/', 'refused-scheme'],
  ['https://user:secret@93.184.216.34/', 'invalid-request'],
  ['not a url', 'invalid-request'],
] as const;

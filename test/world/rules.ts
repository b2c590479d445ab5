/** What most applications of these tests may do. */
export const permissions = ['token:create', 'token:read', 'token:search', 'token:update', 'token:use'];

/** A rule that shows the plaintext of all tokens, unless `changes` say otherwise. */
export const rule = (changes: object = {}) => ({
  description: 'of the test',
  priority: 1,
  container: '/',
  transform: 'reveal',
  permissions,
  ...changes,
});

import type { AccessRule, ApplicationType, Permission, Transform } from '@token-vault/contracts';
import fc from 'fast-check';

/** The rights of an application or a session. */
export interface Rights {
  readonly permissions: readonly Permission[];
  readonly rules: readonly AccessRule[];
}

export const permissions: readonly Permission[] = [
  'token:create',
  'token:read',
  'token:update',
  'token:delete',
  'token:search',
];
const ofPublic: readonly Permission[] = ['token:create', 'token:update'];
const permissionsOf = (type: ApplicationType): readonly Permission[] =>
  type === 'public' ? ofPublic : permissions;

export const rule = (of: Partial<AccessRule>): AccessRule => ({
  description: undefined,
  priority: 1,
  container: undefined,
  conditions: undefined,
  transform: 'mask',
  permissions: [...permissions],
  ...of,
});

const anything = fc.constantFrom<Transform>('redact', 'mask');

/** All rights without plaintext outside /open/. In /open/ both twins hold the same data. */
export const rightsOf = (type: ApplicationType): fc.Arbitrary<Rights> => {
  const all = permissionsOf(type);
  const granted = fc.oneof(fc.subarray([...all], { minLength: 1 }), fc.constant([...all]));
  const restricted = fc.record({
    container: fc.constantFrom('/', '/a/', '/a/b/', '/c/'),
    transform: anything,
    permissions: granted.map((each) => [...each]),
    search_data: fc.constantFrom(undefined, false),
  });
  const open = rule({ container: '/open/', transform: 'reveal', permissions: [...all], priority: 9 });
  return fc.record({
    permissions: fc.oneof(fc.subarray([...all]), fc.constant([...all])),
    rules: fc
      .array(restricted, { maxLength: 3 })
      .map((rules) => [...rules.map((each, index) => rule({ ...each, priority: index + 1 })), open]),
  });
};

const condition = fc.constantFrom(
  [{ attribute: 'id', operator: 'starts_with', value: 'token-' } as const],
  [{ attribute: 'id', operator: 'equals', value: 'token-1' } as const],
  [{ attribute: 'container', operator: 'starts_with', value: '/a/' } as const],
);

/** The rights of a session may have any transform, because its authorizer limits it. */
export const sessionRights: fc.Arbitrary<Rights> = fc.record({
  permissions: fc.oneof(fc.subarray([...permissions], { minLength: 1 }), fc.constant([...permissions])),
  rules: fc
    .array(
      fc.record({
        conditions: condition.map((each) => [...each]),
        transform: fc.constantFrom<Transform>('redact', 'mask', 'reveal'),
        permissions: fc.subarray([...permissions], { minLength: 1 }),
      }),
      { maxLength: 2 },
    )
    .map((rules) => rules.map((each, index) => rule({ ...each, priority: index + 1 }))),
});

/** Sees every token in plaintext. */
export const everything: Rights = {
  permissions: [],
  rules: [rule({ container: '/', transform: 'reveal' })],
};

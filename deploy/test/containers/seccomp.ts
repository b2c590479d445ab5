import { readFileSync } from 'node:fs';

interface Rule {
  readonly names: readonly string[];
  readonly action: string;
  readonly includes?: object;
}
interface Profile {
  readonly syscalls: readonly Rule[];
}

/** The default profile of Podman. It lets each process make namespaces. */
export const podmanSeccompFile = '/usr/share/containers/seccomp.json';

/** The system calls that Docker's default profile allows only with CAP_SYS_ADMIN, and Podman's to all. */
const administrative = new Set(
  `fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree pivot_root setns sethostname setdomainname umount umount2
  unshare clone clone3`.split(/\s+/),
);
/** The flags of clone() that make namespaces. */
const namespaceFlags = 0x7e020000;
const [enosys, maskedEqual] = [38, 'SCMP_CMP_MASKED_EQ'];

/**
 * The default profile of Podman on this machine, made as strict as Docker's: a process without CAP_SYS_ADMIN can neither mount nor make a
 * namespace (https://docs.docker.com/engine/security/seccomp/).
 */
export function dockerSeccomp(): object {
  const profile = JSON.parse(readFileSync(podmanSeccompFile, 'utf8')) as Profile;
  const kept = profile.syscalls.map((rule) => ({
    ...rule,
    names: rule.names.filter((name) => !administrative.has(name)),
  }));
  const args = [{ index: 0, value: namespaceFlags, valueTwo: 0, op: maskedEqual }];
  return {
    ...profile,
    syscalls: [
      ...kept.filter(({ names }) => names.length > 0),
      { names: ['clone'], action: 'SCMP_ACT_ALLOW', args },
      // The C library then takes clone(), whose flags can be seen.
      { names: ['clone3'], action: 'SCMP_ACT_ERRNO', errnoRet: enosys },
    ],
  };
}

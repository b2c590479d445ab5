import { frame } from '../framing.ts';

/** The additional authenticated data of every wrapped key: one row cannot replace another. */
export const keyBinding = {
  rootCheck: (rootKeyId: string): Buffer => frame(['root-check', '1', rootKeyId]),
  tenantKey: (tenantId: string, version: number, rootKeyId: string): Buffer =>
    frame(['tenant-key', '1', tenantId, String(version), rootKeyId]),
  indexKey: (tenantId: string, version: number, format: number): Buffer =>
    frame(['index-key', String(format), tenantId, String(version)]),
  dataKey: (
    key: {
      readonly id: string;
      readonly tenantId: string;
      readonly entity: string;
      readonly purpose: string;
    },
    version: number,
  ): Buffer => frame(['data-key', '1', key.tenantId, String(version), key.id, key.entity, key.purpose]),
};

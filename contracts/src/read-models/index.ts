export * from './names.ts';
export { aliased, liveSchema, tableOf, type Aliased } from './tables.ts';

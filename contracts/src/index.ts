export type { Json, JsonArray, JsonObject } from './json.ts';
export * from './metadata.ts';
export * from './events/registry.ts';

/** A value as JSON knows it. */
export type Json = null | boolean | number | string | JsonArray | JsonObject;
export type JsonArray = Json[];
export interface JsonObject {
  [key: string]: Json;
}

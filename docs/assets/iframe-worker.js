/* Search for a site that is opened from a folder, where browsers allow no workers: the script runs in a hidden frame. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.document.open()
      inside.document.write("<!doctype html><title>search</title>")
      inside.document.close()
      inside.postMessage = data => setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })))
      const load = src => new Promise((loaded, failed) => {
        const script = inside.document.createElement("script")
        script.src = src
        script.onload = loaded
        script.onerror = failed
        inside.document.head.append(script)
      })
      inside.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => load(each)), Promise.resolve())
      this.ready = load(new URL(url, location.href).href)
    }

    postMessage(data) {
      const inside = this.frame.contentWindow
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
  window.Worker = window.IFrameWorker
}

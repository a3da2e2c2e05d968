// Adds messages to a conversation as they come. The pages do without it.
'use strict'

for (const time of document.querySelectorAll('time')) local(time)

function local(time) {
	time.title = new Date(time.dateTime).toLocaleString(undefined, {dateStyle: 'medium', timeStyle: 'long'})
}

document.addEventListener('keydown', event => {
	if (event.key !== '/' || event.target.closest('input, textarea') || event.ctrlKey || event.metaKey) return
	event.preventDefault()
	document.getElementById('q').focus()
})

const main = document.getElementById('main')
if (main.dataset.feed) follow(main.dataset.feed)

function follow(feed) {
	const list = document.getElementById('messages'), status = document.getElementById('live')
	const branches = new URLSearchParams(location.search).has('branches')
	const open = new Map()
	const most = 500 // messages in the page: a busy session would fill the browser
	let after = '', failures = 0, left = false, settling = false

	const show = {
		begin() { say() },
		message({sequence, follows, call_id, html, redacts}) {
			if (document.getElementById('m' + sequence)) return
			if (redacts) return location.reload() // what is shown may be redacted
			settle()
			if (follows !== undefined && !branches)
				for (const old of list.querySelectorAll('article')) if (+old.dataset.sequence > follows) old.remove()
			const parsed = document.createElement('template')
			parsed.innerHTML = html // made by the server's templates
			const added = parsed.content.firstElementChild
			const call = call_id && [...list.children].findLast(a => a.dataset.call === call_id)
			if (call) {
				const results = call.querySelector('.results')
				results.hidden = false
				results.append(added)
			} else list.append(added)
			added.querySelectorAll('time').forEach(local)
			list.parentElement.querySelector(':scope > .empty')?.remove()
			while (list.children.length > most) {
				list.firstElementChild.remove()
				left = true
			}
		},
		stream({stream, state}) {
			if (state === 'open' || state === 'restarted') open.set(stream, 0)
			else open.delete(stream)
			say()
		},
		part({stream, parts}) {
			if (open.has(stream)) open.set(stream, parts)
			say()
		},
		end({reason}) { status.textContent = 'This session is no more: ' + reason + '.' },
	}

	// settle stays at the end if the viewer is there, once for all messages of a frame.
	function settle() {
		if (settling) return
		settling = true
		const atEnd = innerHeight + scrollY >= document.body.scrollHeight - 80
		requestAnimationFrame(() => {
			settling = false
			if (atEnd) scrollTo(0, document.body.scrollHeight)
			if (left) say()
		})
	}

	function say() {
		const parts = [...open.values()].map(n => n + ' parts')
		status.textContent = parts.length ? 'Live. Being written: ' + parts.join(', ') + '.' : 'Live: new messages appear here.'
		if (left) status.textContent += ' Older ones have left this page: load it again for them.'
		status.classList.add('on')
	}

	function connect() {
		const address = new URL(feed, location)
		if (after) address.searchParams.set('after', after)
		const source = new EventSource(address)
		for (const name in show) source.addEventListener(name, event => {
			after = event.lastEventId
			failures = 0
			show[name](JSON.parse(event.data))
			if (name === 'end') source.close()
		})
		source.onerror = () => {
			status.classList.remove('on')
			status.textContent = 'Interrupted: trying again…'
			if (source.readyState !== EventSource.CLOSED || after === 'end') return
			if (++failures < 10) setTimeout(connect, 1000 * failures)
			else status.textContent = 'Not live any more. Load the page again.'
		}
	}
	connect()
}
